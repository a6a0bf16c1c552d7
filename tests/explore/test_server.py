"""The explorer as a web server: what it answers, and to whom."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
from starlette.testclient import TestClient

from limitlaw import explore
from limitlaw.cli import _explore
from limitlaw.explore import VIEWS
from limitlaw.explore._server import create_app

EXPLORE = [sys.executable, "-c", "from limitlaw.cli import main; main()", "explore", "--no-open", "--port", "0"]


def lines(client, view, query):
    """The events of an answer."""
    answer = client.get(f"/api/{view}", params=query)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_view_is_answered_part_after_part(client):
    query = {"width": "16", "tokens": "2"}
    events = lines(client, "layer", query)
    shown = [(event["part"], event["first"]) for event in events if "panel" in event]
    assert shown[0] == ("density", True)
    assert [part for part, first in shown if not first] == list(VIEWS["layer"].parts)
    done = [round(event["progress"], 9) for event in events if "progress" in event]
    assert done == sorted(done)
    again = lines(client, "layer", {**query, "utm_source": "mail"})
    assert [event["part"] for event in again] == list(VIEWS["layer"].parts)  # at once, and nothing else
    assert all(event in events for event in again)


def test_only_what_depends_on_a_field_is_computed_again(client):
    query = {"width": "inf", "tokens": "2"}
    before = lines(client, "layer", query)
    events = lines(client, "layer", {**query, "key": "1"})
    assert {event["part"] for event in events if "progress" in event} == {VIEWS["layer"].parts["scores"].title}
    density = [[e for e in each if e.get("part") == "density" and "panel" in e][-1] for each in (before, events)]
    assert density[0] == density[1]


def test_one_part_can_be_asked_for(client):
    query = {"width": "inf", "tokens": "2"}
    answer = client.get("/api/layer/density", params=query)
    panel = [event for event in lines(client, "layer", query) if event["part"] == "density"][-1]["panel"]
    assert answer.json() == panel


def test_a_refused_part_is_not_the_end_of_the_others(client):
    query = {"width": "inf", "query_std": "0", "tokens": "2"}
    by_part = {event["part"]: event for event in lines(client, "layer", query) if "progress" not in event}
    assert "score is identically 0" in by_part["scores"]["refused"]
    assert by_part["scores"]["field"] == "scale"
    assert "panel" in by_part["density"]
    answer = client.get("/api/layer/scores", params=query)
    assert (answer.status_code, answer.json()["field"]) == (422, "scale")


@pytest.mark.parametrize("path", ["layer", "layer/density", "layer/python"])
def test_a_bad_value_is_refused_with_its_field(client, path):
    answer = client.get(f"/api/{path}", params={"heads": "0"})
    assert answer.status_code == 422
    assert answer.json() == {"field": "heads", "message": "heads='0' must be a whole number from 1 to 1024 or inf."}


def test_code_is_that_of_the_state(client):
    state = VIEWS["regression"].state.parse({"dim": "30"})
    code = client.get("/api/regression/python", params={"dim": "30"}).json()["code"]
    assert code == VIEWS["regression"].python(state)


@pytest.mark.parametrize("path", ["/api/layer/none", "/api/none/density", "/api/none", "/api/none/python", "/api"])
def test_a_missing_answer_is_json(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    if path != "/api":
        assert re.fullmatch(r"There is no .*\. The \w+ are .*\.", answer.json()["message"])


@pytest.mark.parametrize("path", ["/nothing", "/static/none.js", "/static/../_server.py", "/static/%2e%2e/_server.py"])
def test_a_missing_page_is_a_page(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert 'href="/"' in answer.text


def test_the_page_fetches_nothing_from_outside(client):
    for file in (Path(explore.__file__).parent / "static").iterdir():
        assert not re.search(r"https?://|[\"']//", file.read_text(encoding="utf-8")), file.name
    assert client.get("/plotly.js").status_code == 200
    headers = client.get("/").headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8642", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1", 200),
        ("127.8.9.1:80", 200),
        ("[::1]:1", 200),
        ("localhost:99999", 403),
        ("localhost:1:2", 403),
        ("evil.example", 403),
        ("evil.example:8642", 403),
        ("127.0.0.1.evil.example", 403),
        ("127.0.0.1@evil.example", 403),
        ("evil@127.0.0.1", 403),
        ("127.0.0.1/evil", 403),
        ("0.0.0.0", 403),
        ("]", 403),
        ("", 403),
    ],
)
def test_without_a_token_only_this_machine_is_a_name(client, host, status):
    assert client.get("/api/views", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200), (None, 200)]
)
def test_pages_of_other_sites_cannot_make_it_compute(client, site, status):
    headers = {} if site is None else {"sec-fetch-site": site}
    assert client.get("/api/layer/density", params={"width": "inf"}, headers=headers).status_code == status
    assert client.get("/", headers=headers).status_code == 200  # a link from elsewhere opens the page


def test_a_token_is_asked_for_and_then_kept_in_a_cookie():
    with TestClient(create_app("s3cret"), base_url="http://somewhere") as client:
        for given in ({}, {"access": "wrong"}, {"access": "é"}):
            assert client.get("/api/views", params=given).status_code == 403
        assert client.get("/", params={"access": "s3cret"}).status_code == 200
        assert client.get("/api/views").status_code == 200
        refused = client.get("/api/views", headers={"sec-fetch-site": "cross-site"})
        assert refused.status_code == 403  # the browser sends the cookie whoever asks


def test_a_token_of_one_port_is_no_cookie_of_another():
    with TestClient(create_app("secret"), base_url="http://box:8001") as client:
        assert client.get("/api/views", params={"access": "secret"}).status_code == 200
        assert client.get("/api/views").status_code == 200
        other = client.get("http://box:8002/api/views", headers={"cookie": "access-8001=secret"})
        assert other.status_code == 403


@pytest.fixture(scope="module")
def running():
    """The port of an explorer in a process, and the process."""
    with subprocess.Popen(EXPLORE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(re.search(r":(\d+)/", server.stdout.readline())[1])
        yield port, server
        server.terminate()
        server.wait(30)


def connected(port, text):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(text.encode())
    return connection


def asked(port, path):
    """A whole answer, and how long it took."""
    start = time.monotonic()
    with connected(port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") as connection:
        text = b"".join(iter(lambda: connection.recv(65536), b""))
    assert text.startswith(b"HTTP/1.1 200"), text[:200]
    return time.monotonic() - start


def test_half_open_connections_are_closed(running):
    port, _ = running
    asked(port, "/api/views")
    starts = ["", "GET / HT", "GET / HTTP/1.1\r\nHost: localhost\r\nX-"]
    kept = "GET /api/views HTTP/1.1\r\nHost: localhost\r\n\r\n"
    held = [connected(port, start) for start in starts]
    second = connected(port, kept)
    assert second.recv(65536).startswith(b"HTTP/1.1 200")
    second.sendall(b"GET / HT")  # a second request on the same connection
    for connection in [*held, second]:
        connection.settimeout(15)
        while connection.recv(65536):  # until the server closes it
            pass
        connection.close()


def test_abandoned_requests_do_not_delay_the_next(running):
    port, _ = running
    asked(port, "/api/layer/density?width=20")
    for i in range(100):
        connected(port, f"GET /api/layer?width={5000 + i}&heads=3 HTTP/1.1\r\nHost: localhost\r\n\r\n").close()
    assert asked(port, "/api/layer/density?width=33") < 20


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
def test_an_interrupt_ends_it_without_a_word():
    with subprocess.Popen(EXPLORE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        port = int(re.search(r":(\d+)/", server.stdout.readline())[1])
        asked(port, "/api/views")
        with connected(port, "GET /api/layer?heads=5 HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            time.sleep(0.3)
            os.kill(server.pid, signal.SIGINT)
            server.wait(20)
        assert "Traceback" not in server.stdout.read()


def test_a_busy_port_is_refused_in_a_sentence():
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with pytest.raises(ValueError, match=rf"--port {port} is in use\. .*\.$"):
            _explore.explore(port=port)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "limitlaw.explore._serve", raising=False)
    with pytest.raises(RuntimeError, match=r"uvicorn is not installed\. Run pip install '\.\[explore\]' in a checkout"):
        _explore.explore(port=0)
