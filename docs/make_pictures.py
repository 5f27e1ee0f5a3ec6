"""Draws pictures of the gallery in Chromium, from their documented commands.

  python docs/make_pictures.py try_a_model MODEL_FOLDER
  python docs/make_pictures.py report mrpc_output/report.html

The first starts `serve.py --model_dir=MODEL_FOLDER` (all-MiniLM-L6-v2), types
five lines and asks for their similarities. The second draws the top of a
report. Both need playwright and Chromium.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

from playwright import sync_api

DOCS = pathlib.Path(__file__).resolve().parent
LINES = [
  "The ferry leaves at noon.",
  "The boat departs at twelve.",
  "Prices rose by three per cent in May.",
  "Bread became dearer in spring.",
  "Anna scored twice in the final.",
]


def chromium() -> str:
  """Returns Chromium's path, or ends the script."""
  path = shutil.which("chromium") or shutil.which("chromium-browser")
  return path or sys.exit("install Chromium, such as apt install chromium")


def draw_page(tab: sync_api.Page, url: str, target: pathlib.Path) -> None:
  """Draws the try-a-model page with the similarities of LINES."""
  tab.goto(url)
  tab.fill("textarea", "\n".join(LINES))
  # The first batch of a size takes longer.
  for _ in range(2):
    with tab.expect_response(lambda response: ":predict" in response.url):
      tab.click("#send")
    tab.locator("#send:enabled").wait_for()
  tab.locator("body").click(position={"x": 1, "y": 1})
  tab.screenshot(path=target, full_page=True)


def draw_report(tab: sync_api.Page, path: str, target: pathlib.Path) -> None:
  """Draws the top of a run's report, with the confusion matrix."""
  tab.goto(pathlib.Path(path).resolve().as_uri())
  box = tab.get_by_role("heading", name="Classes").bounding_box()
  height = box["y"] if box else 820
  tab.screenshot(
    path=target,
    full_page=True,
    clip={"x": 0, "y": 0, "width": 860, "height": height},
  )


def serving(folder: str) -> tuple[subprocess.Popen, str]:
  """Starts serve.py; returns its process and the page's URL."""
  command = [sys.executable, str(DOCS.parent / "serve.py"), "--port=0"]
  process = subprocess.Popen(
    [*command, f"--model_dir={folder}", "--model_name=all-MiniLM-L6-v2"],
    stdout=subprocess.PIPE,
    text=True,
  )
  assert process.stdout
  url = process.stdout.readline().partition("/v1/")[0]
  return process, url or sys.exit("serve.py failed, see above")


def main() -> None:
  """Draws the picture that the arguments name."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("picture", choices=["try_a_model", "report"])
  parser.add_argument("source", help="a model's folder, or a report.html")
  parser.add_argument("--output_dir", type=pathlib.Path, default=DOCS)
  arguments = parser.parse_args()
  target = arguments.output_dir / f"{arguments.picture}.png"
  with sync_api.sync_playwright() as playwright:
    browser = playwright.chromium.launch(
      executable_path=chromium(), args=["--no-sandbox"]
    )
    tab = browser.new_page(
      viewport={"width": 860, "height": 820}, color_scheme="light"
    )
    if arguments.picture == "report":
      draw_report(tab, arguments.source, target)
    else:
      process, url = serving(arguments.source)
      try:
        draw_page(tab, url, target)
      finally:
        process.terminate()
        process.wait()
    browser.close()
  print(f"The picture is {target}.")


if __name__ == "__main__":
  main()
