"""The page in a real browser: a person drags the light, turns the object and looks at the maps."""

import base64
import io
import json
import re
import shutil
import time

import numpy as np
import pytest

from maxsparse import stereo

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def page(matt_ball, tmp_path_factory):
    path = tmp_path_factory.mktemp("viewer") / "viewer.html"
    result = stereo.estimate_normals(matt_ball, "consensus")
    stereo.write_viewer(result, stereo.integrate(result.normals), path, title="A <ball> & more")
    return path


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("Chromium and chromedriver are not installed, so the page was not tried in a browser")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "enable-unsafe-swiftshader"):
        options.add_argument(f"--{argument}")
    options.add_argument("--window-size=1000,700")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield session
    session.quit()


@pytest.fixture
def opened(browser, page):
    browser.get(page.as_uri())
    if not until(lambda: browser.execute_script("return document.body.dataset.ready")):
        pytest.fail("the page did not draw: " + browser.execute_script("return document.body.innerText"))
    return browser


def until(ready, seconds=60.0):
    """Return what `ready` returns as soon as it is true; a full machine may take long, so `seconds` is generous."""
    end = time.monotonic() + seconds
    while not (found := ready()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def settle(browser):
    """Wait until the page has drawn what it was asked for: drawing waits for the next frame."""
    browser.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 100)))"
    )


def look(browser):
    """Return what the canvas shows, (h, w, 3)."""
    settle(browser)
    picture = browser.find_element("id", "view").screenshot_as_png
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")).astype(float)


def drag(browser, name, dx, dy):
    from selenium.webdriver import ActionChains

    element = browser.find_element("id", name)
    ActionChains(browser).move_to_element(element).click_and_hold().move_by_offset(dx, dy).release().perform()


def brightest(picture):
    """Return the centre of the brighter half of the object, as fractions from left and top."""
    grey = picture.sum(axis=2)
    rows, columns = np.nonzero(grey > 0.7 * grey.max())
    return columns.mean() / grey.shape[1], rows.mean() / grey.shape[0]


def test_the_file_needs_nothing_else(page):
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)\s*=|https?://|@import|url\(", text)
    assert "A &lt;ball&gt; &amp; more" in text
    assert "<!--" not in text.replace("<!doctype", "")


def test_dragging_the_light_moves_the_bright_side(opened):
    drag(opened, "pad", -60, 0)
    left = look(opened)
    drag(opened, "pad", 60, 0)
    right = look(opened)
    drag(opened, "pad", 0, -60)
    top = look(opened)
    assert np.abs(left - right).mean() > 5
    assert brightest(left)[0] < brightest(right)[0] - 0.1
    assert brightest(top)[1] < brightest(right)[1] - 0.05
    assert not [entry for entry in opened.get_log("browser") if entry["level"] == "SEVERE"]


def test_keys_move_the_light_too(opened):
    before = look(opened)
    pad = opened.find_element("id", "pad")
    pad.send_keys("\ue012" * 10)  # arrow left
    after = look(opened)
    assert brightest(after)[0] < brightest(before)[0] - 0.03


def test_turning_the_object_and_back(opened):
    before = look(opened)
    drag(opened, "view", 120, 30)
    turned = look(opened)
    opened.find_element("id", "reset").click()
    assert np.abs(turned - before).mean() > 3
    assert np.abs(look(opened) - before).mean() < 0.5


def test_every_map_can_be_shown(opened, matt_ball):
    seen = {}
    for button in opened.find_elements("css selector", "#modes button"):
        assert button.is_enabled()
        button.click()
        assert button.get_attribute("aria-pressed") == "true"
        seen[button.text] = look(opened)
    assert set(seen) == {"Relit", "Normals", "Albedo", "Confidence", "Error"}
    names = list(seen)
    for i, first in enumerate(names):
        for second in names[:i]:
            assert np.abs(seen[first] - seen[second]).mean() > 1, (first, second)
    # In the normals' colours red grows to the right and green upwards.
    n = seen["Normals"]
    h, w = n.shape[:2]
    middle = np.s_[h // 2 - 3 : h // 2 + 3, w // 2 - 3 : w // 2 + 3]
    right = np.s_[h // 2 - 3 : h // 2 + 3, w // 2 + h // 4 - 3 : w // 2 + h // 4 + 3]
    top = np.s_[h // 4 - 3 : h // 4 + 3, w // 2 - 3 : w // 2 + 3]
    assert n[middle].mean(axis=(0, 1)) == pytest.approx([128, 128, 255], abs=12)
    assert n[right][..., 0].mean() > 170
    assert n[top][..., 1].mean() > 170


def test_a_scene_without_truth_says_why_error_is_off(browser, matt_ball, tmp_path):
    images = np.stack([matt_ball.picture(column) for column in matt_ball.readings.T])
    scene = stereo.make_scene(images, matt_ball.lights, mask=matt_ball.mask)
    result = stereo.estimate_normals(scene, "ls")
    stereo.write_viewer(result, stereo.integrate(result.normals), tmp_path / "v.html")
    browser.get((tmp_path / "v.html").as_uri())
    assert until(lambda: browser.execute_script("return document.body.dataset.ready"))
    button = browser.find_element("css selector", "[data-mode='4']")
    assert not button.is_enabled()
    assert "not known" in button.get_attribute("title")


def test_the_bad_photograph_is_named_and_its_light_chosen(opened, matt_ball):
    said = opened.find_element("id", "chosen").text
    assert "the worst is photograph 2," in said  # it is black
    before = look(opened)
    bars = opened.find_element("id", "bars")
    bars.send_keys("\ue014" * 4)  # arrow right: photographs 0 to 3
    assert opened.find_element("id", "chosen").text.startswith("photograph 3: misfit 0")
    after = look(opened)
    assert np.abs(after - before).mean() > 1
    x, y, _ = matt_ball.lights[3]
    assert np.sign(brightest(after)[0] - 0.5) == np.sign(x) or abs(x) < 0.1
    assert np.sign(0.5 - brightest(after)[1]) == np.sign(y) or abs(y) < 0.1


def test_a_profile_is_the_ball(opened):
    opened.find_element("id", "cut").click()
    settle(opened)
    plot = opened.find_element("id", "profile")
    depth = np.array([np.nan if z is None else z for z in json.loads(plot.get_attribute("data-values"))])
    length = float(plot.get_attribute("data-length"))
    radius = 47 / 2  # half of the picture
    place = np.linspace(-length / 2, length / 2, len(depth))
    known = np.isfinite(depth) & (np.abs(place) < 0.85 * radius)
    assert known.sum() > 100
    off = depth - np.sqrt(np.maximum(radius**2 - place**2, 0))
    off = off[known] - np.median(off[known])
    assert np.abs(off).mean() < 0.05 * radius
    assert "px" in opened.find_element("id", "caption").text
    drag(opened, "view", 60, 60)
    settle(opened)
    assert float(plot.get_attribute("data-length")) < length
    opened.find_element("id", "cut").click()
    settle(opened)
    assert not opened.find_element("id", "plot").is_displayed()


def test_a_still_is_saved(opened):
    opened.execute_script(
        "HTMLAnchorElement.prototype.click = function () {"
        " fetch(this.getAttribute('href')).then((r) => r.arrayBuffer())"
        ".then((b) => { document.body.dataset.still = btoa(String.fromCharCode(...new Uint8Array(b))); }); }"
    )
    opened.find_element("id", "still").click()
    held = until(lambda: opened.execute_script("return document.body.dataset.still"))
    assert held, "no still was offered"
    saved = np.asarray(Image.open(io.BytesIO(base64.b64decode(held))).convert("RGB")).astype(float)
    shown = look(opened)
    assert np.abs(saved.mean(axis=(0, 1)) - shown.mean(axis=(0, 1))).max() < 3
    assert saved.std() > 10


def test_estimated_lights_are_drawn_next_to_the_given_ones(matt_ball, tmp_path):
    from dataclasses import replace

    result = stereo.estimate_normals(matt_ball, "consensus")
    L = matt_ball.lights
    found = stereo.LightEstimate(L, np.ones(14), np.full(14, 2.5), before=np.roll(L, 1, axis=0))
    path = tmp_path / "v.html"
    stereo.write_viewer(replace(result, light_estimate=found), stereo.integrate(result.normals), path)
    stored = re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.S).group(1)
    shots = json.loads(stored)["photographs"]
    np.testing.assert_allclose([shot["light"] for shot in shots], L, atol=1e-4)
    np.testing.assert_allclose([shot["before"] for shot in shots], found.before, atol=1e-4)
    assert {shot["error"] for shot in shots} == {2.5}
    # The residual of a photograph is its median distance from shading, in closed form.
    shading = np.maximum(np.einsum("hwi,i->hw", result.normals, L[2]), 0)[matt_ball.mask]
    assert shots[2]["residual"] == pytest.approx(np.median(shading), abs=1e-4)
    assert max(shot["residual"] for i, shot in enumerate(shots) if i not in (2, 5)) < 1e-3
