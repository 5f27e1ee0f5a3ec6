"""Networks between an encoder and its heads; --on_top names a file.

A configuration with the key `<file>_on_top` set to true has the network of the
file on top. A file defines

  NAME      begins the names of its variables (NAME/kernel), which
            --init_checkpoint may lack
  def on(encoder_class): returns a subclass of a modeling.BertModel, whose
            sequence_output and pooled_output come from the top
"""
