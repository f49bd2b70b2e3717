"""A server is killed at two hundred random moments while it saves: its last checkpoint restores."""

import pytest

from saving import kill_while_saving


@pytest.mark.parametrize("number", range(200))
def test_the_last_checkpoint_is_whole(tmp_path, number):
    assert kill_while_saving(tmp_path, 1000 + number) > 0
