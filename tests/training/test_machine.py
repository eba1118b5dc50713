import platform

from training.machine import describe_machine, find_versions


def test_the_machine_has_a_processor_and_a_platform():
    machine = describe_machine()
    assert machine["processor"] and machine["processors"] >= 1 and machine["platform"] == platform.platform()


def test_packages_that_are_not_installed_are_left_out():
    assert set(find_versions(["spacy", "no-such-package"])) == {"python", "spacy"}
