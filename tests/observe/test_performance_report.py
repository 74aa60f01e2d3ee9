"""Dask's performance report: of our local cluster, TLS and no web pages, and where it may lie."""

import importlib.util
import re
import stat
from types import SimpleNamespace

import pytest

from primo_scale.cluster.connect import dask_client, performance_reported
from primo_scale.cluster.profile import LocalProfile
from primo_scale.errors import InputError, UsageError
from primo_scale.run.request import Execution


@pytest.mark.slow  # and needs Bokeh
def test_report_of_the_local_cluster(tmp_path) -> None:
    report = tmp_path / "report.html"
    with dask_client(LocalProfile(1), tmp_path / "scratch") as client:
        with performance_reported(client, report):
            assert client.gather(client.map(abs, range(-7, 0))) == list(range(7, 0, -1))
        page = report.read_text()
        failed = tmp_path / "failed.html"
        with pytest.raises(ZeroDivisionError), performance_reported(client, failed):
            client.submit(divmod, 1, 0).result()
    assert re.search(r"number of tasks: 7\b", page)
    assert "tls://127.0.0.1" in page
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    markup = re.sub(r"(<script[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)
    assert len(markup) < len(page) / 10  # the scripts are in it
    assert re.findall(r"<[^>]+(?:src|href)=[^>]*>", markup) == []
    assert not failed.exists()


def test_a_scheduler_without_bokeh_is_refused_before_the_work(tmp_path) -> None:
    client = SimpleNamespace(run_on_scheduler=lambda function, name: None)
    begun = False
    report = performance_reported(client, tmp_path / "report.html")
    with pytest.raises(InputError, match="pip install bokeh"), report:
        begun = True
    assert not begun


def test_without_bokeh_the_option_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs Bokeh\. pip install bokeh$"):
        Execution(performance_report="r.html")
