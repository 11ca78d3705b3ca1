"""Modules that are imported before they are needed."""

import gc
import sys

from mlbench.execution.preload import preload


def test_a_module_that_fails_in_any_way_is_left_to_who_needs_it_and_the_next_one_is_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "lacks_a_library.py").write_text('raise OSError("libdevice.so.1: cannot open shared object file")\n')
    (tmp_path / "sound_runtime.py").touch()
    preload(["lacks_a_library", "no_such_module_here", "sound_runtime"])
    assert "sound_runtime" in sys.modules
    assert "lacks_a_library" not in sys.modules


def test_no_garbage_is_collected_while_modules_are_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "collecting_runtime.py").write_text("import gc\n\nIS_ON = gc.isenabled()\n")
    preload(["collecting_runtime"])
    assert not sys.modules["collecting_runtime"].IS_ON
    assert gc.isenabled()
