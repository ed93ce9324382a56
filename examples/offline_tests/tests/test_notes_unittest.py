"""The same cassettes under unittest: `python -m unittest discover tests`."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from notes import BASE_URL, client_for, nearest  # noqa: E402

from shim.testing import use_cassette  # noqa: E402

NOTES = ["The boiler is serviced every May.", "The spare key hangs behind the clock.", "Rubbish goes out on Tuesday."]


class NotesTest(unittest.TestCase):
    @use_cassette(HERE / "cassettes" / "twice.yaml", record="none", hosts={BASE_URL: "https://notes.invalid"})
    def test_a_question_finds_its_note(self) -> None:
        with client_for() as client:
            self.assertEqual(nearest(client, "Where is the second key?", NOTES), NOTES[1])


if __name__ == "__main__":
    unittest.main()
