    """Return the path of a program. If it is missing, skip the test, or fail it if the environment variable CI is set.
    """
    found = next((path for each in PROGRAMS[name] if (path := shutil.which(each))), None)
    if found is None and os.environ.get("CI"):
        pytest.fail(f"{name} is missing; run scripts/system-packages")
    return found or pytest.skip(f"{name} is missing; run scripts/system-packages")


@contextmanager
def browser(folder: Path, *flags: str, width: int = 1100, height: int = 1400) -> Iterator[Chrome]:
    """A browser with a profile of its own in `folder`, its requests logged."""
    options = ChromeOptions()
    options.binary_location = program("chromium")
    for flag in (*FLAGS, *flags, f"--user-data-dir={folder}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = Chrome(options=options, service=ChromeService(executable_path=program("chromedriver")))
    try:
        # A new tab asks for parts of its own.
        driver.get("about:blank")
        requested(driver)
        yield driver
    finally:
        driver.quit()


def requested(driver: Chrome) -> list[str]:
    """Addresses of everything the page asked for since the last call."""
    told = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [each["params"]["request"]["url"] for each in told if each["method"] == "Network.requestWillBeSent"]


def complaints(driver: Chrome) -> list[str]:
    """What the console has: errors of the script among them."""
    return [entry["message"] for entry in driver.get_log("browser")]
