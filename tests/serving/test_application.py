"""A served atlas: strict pages, a JSON interface, scans to watch, and nothing written without a token."""

import json
import logging
import re
import shutil
import time

import pytest
from tests.atlas.made import drawn_atlas
from tests.document.test_atlas_site import HOSTILE, Page
from tests.registry.made import drawn
from tests.serving.client import Client

from modelkin.atlas import AtlasOptions, make_atlas, model_key, pair_key
from modelkin.document import to_json
from modelkin.errors import UsageError
from modelkin.options import FetchOptions
from modelkin.registry import create_registry, open_registry
from modelkin.serving import ServeAccess
from modelkin.serving.application import HEADERS, MOST_BYTES, atlas_app
from modelkin.serving.jobs import MOST_WAITING, ScanJobs

TOKEN = "a-token-of-thirty-two-letters-xx"
BARE = AtlasOptions(cards=False, claims_depth=None, grow=0, reports=0)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Return a registry that no test changes."""
    base = drawn("org/base", 1)
    made = [base, drawn("org/child", 2, parent=base, share=0.9), drawn("org/other", 3)]
    where = str(tmp_path_factory.mktemp("shared") / "registry")
    create_registry(where).add(made)
    return where


@pytest.fixture(scope="module")
def atlas(shared):
    return make_atlas(open_registry(shared), BARE)


@pytest.fixture
def place(shared, tmp_path):
    """Return a registry that a test may change."""
    return shutil.copytree(shared, tmp_path / "registry")


@pytest.fixture
def client_of(atlas, place):
    return lambda **access: Client(atlas_app(atlas, str(place), access=ServeAccess(**access)))


@pytest.fixture
def client(atlas, shared):
    return Client(atlas_app(atlas, shared))


@pytest.fixture
def hostile(shared):
    return Client(atlas_app(drawn_atlas(12, family=6, names=HOSTILE), shared))


def fingerprint(ref="org/new", seed=7, **more):
    return json.loads(to_json(drawn(ref, seed, **more)))


def over(client, job):
    """Wait until a scan is over."""
    for _ in range(600):
        found = client.get(f"/api/scans/{job}").json()
        if found["state"] in ("done", "failed"):
            return found
        time.sleep(0.05)
    raise AssertionError(found)


# -- pages ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/index.html", "/families/0.html", "/scan.html", "/api.html"])
def test_every_page_has_a_strict_policy(client, path):
    answer = client.get(path)
    assert answer.status == 200
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "file:" not in policy
    for name, value in HEADERS.items():
        assert answer.headers[name.lower()] == value


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/nothing"), ("GET", "/api/nothing"), ("POST", "/"), ("PUT", "/api/atlas")]
)
def test_errors_have_the_same_rules(client, method, path):
    answer = client.ask(method, path, b"", {})
    assert answer.status in (404, 405)
    assert answer.headers["content-security-policy"] == "default-src 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/assets/../../head.py", "/models/%2e%2e/x", "/pairs/x/report.html"]
)
def test_no_path_leads_out(client, path):
    assert client.get(path).status == 404


def test_pages_of_hostile_names_run_nothing(hostile):
    for path in ("/", f"/models/{model_key(HOSTILE[0])}.html", f"/pairs/{pair_key(*HOSTILE[:2])}.html"):
        answer = hostile.get(path)
        assert answer.status == 200
        page = Page(answer.text)
        assert page.handlers == page.inline == []
        assert all(re.fullmatch(r"(\.\./)?assets/[a-z]+\.(js|css)", file) for file in page.loaded)


def test_every_link_of_the_first_page_is_answered(client):
    links = set(re.findall(r'(?:href|src)="([^"#]+)"', client.get("/").text))
    assert {"assets/page.css", "assets/map.js", "scan.html", "api.html"} <= links
    for link in links:
        assert client.get(f"/{link}").status == 200, link


# -- reading -------------------------------------------------------------------------------------------


def test_the_interface_describes_itself(client):
    found = client.get("/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    page = client.get("/api.html").text
    for path in found["paths"]:
        assert path in page
    assert found["paths"]["/api/fingerprints"]["post"]["security"] == [{"token": []}]
    assert "security" not in found["paths"]["/api/scans"]["post"]


def test_models_families_and_pairs_are_to_be_had(client):
    assert client.get("/api/atlas").json()["schema"] == "modelkin.atlas/1"
    found = client.get("/api/models?q=CHILD").json()
    assert (found["total"], found["models"][0]["ref"]) == (1, "org/child")
    model = client.get(f"/api/models/{found['models'][0]['key']}").json()
    assert model["relatives"][0]["found"]
    assert client.get("/api/families").json()["families"][0]["members"] == ["org/base", "org/child"]
    pair = client.get(f"/api/pairs/{pair_key('org/base', 'org/child')}").json()
    assert pair["log10_p"] < -6


@pytest.mark.parametrize("path", ["/api/models/x", "/api/pairs/x", "/api/scans/x", "/api/scans/x/events"])
def test_what_is_not_there_is_404(client, path):
    assert client.get(path).status == 404


@pytest.mark.parametrize("limit", ["0", "101", "x", "-1", "٣", "0000000015", "0" * 5_000])
def test_a_limit_is_a_small_number(client, limit):
    assert client.get(f"/api/models?limit={limit}").status == 400


# -- scans ---------------------------------------------------------------------------------------------


def test_a_fingerprint_is_scanned_and_watched(client):
    child = fingerprint(parent=drawn("org/base", 1), share=0.9)
    answer = client.post("/api/scans", {"fingerprint": child})
    assert answer.status == 202
    job = answer.json()["id"]
    events = client.get(f"/api/scans/{job}/events")
    assert events.headers["content-type"].startswith("text/event-stream")
    assert '"state": "done"' in events.text
    result = client.get(f"/api/scans/{job}/result").json()
    assert {hit["ref"] for hit in result["hits"] if hit["found"]} == {"org/base", "org/child"}
    page = client.get(f"/scans/{job}/report.html")
    assert "org/base" in page.text
    assert "script-src 'sha256-" in page.headers["content-security-policy"]
    assert client.get(f"/scans/{job}/verified/01/report.html").status == 404


def test_a_model_is_scanned_by_its_name(client):
    job = client.post("/api/scans", {"model": "demo:base"}).json()["id"]
    found = over(client, job)
    assert found["state"] == "done", found
    assert found["steps"]


@pytest.mark.parametrize(
    "name",
    ["/etc", "./x", "~", "file:///etc/passwd", "https://host/x.safetensors", "s3://b/k", "demo:x", "a::b"],
)
def test_readers_name_models_of_the_hub_and_nothing_of_the_server(client, name):
    for form in (name, f"{name}/x", f"org/../{name}", f"hf:{name}", f"org/x\n{name}"):
        answer = client.post("/api/scans", {"model": form})
        assert answer.status == 400
        assert "org/name" in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[1]", 400),
        (b'{"model": 1}', 400),
        (b'{"model": "a/b", "fingerprint": {}}', 400),
        (b'{"fingerprint": {"schema": "modelkin.scan/1"}}', 400),
        (b'{"fingerprint": {}}', 400),
        (b'{"a": 1, "a": 2}', 400),
        (b'{"x": "' + b"x" * MOST_BYTES + b'"}', 413),
    ],
)
def test_a_body_that_makes_no_sense_is_refused(client, body, status):
    assert client.post("/api/scans", body).status == status


@pytest.mark.parametrize(
    ("default", "asked", "told"),
    [
        ("en", "", "there is no such model"),
        ("ko", "", "그런 모델이 없음"),
        ("en", "ko-KR,ko;q=0.9,en;q=0.8", "그런 모델이 없음"),
        ("ko", "fr, en;q=0.7, ko;q=0.2", "there is no such model"),
        ("ko", "fr;q=x, en;q=y", "there is no such model"),
    ],
)
def test_an_error_is_told_in_the_language_asked_for_and_has_a_code(atlas, shared, default, asked, told):
    client = Client(atlas_app(atlas, shared, language=default))
    answer = client.get("/api/models/nothing", **({"accept-language": asked} if asked else {}))
    assert answer.status == 404
    assert answer.json() == {"error": told, "error_code": "problem.serve-no-model"}


def test_an_error_of_a_fingerprint_has_its_code_and_values(client):
    answer = client.post("/api/scans", {"fingerprint": {"schema": "modelkin.scan/1"}}, accept_language="ko")
    found = answer.json()
    assert found["error_code"] == "error.said"
    assert found["error_values"]["problem"]["code"] == "problem.schema-expected"
    assert "expected" not in found["error"]


def test_why_a_scan_failed_is_told_in_the_language_of_the_pages(atlas, shared):
    client = Client(atlas_app(atlas, shared, language="ko", fetch=FetchOptions(offline=True)))
    job = client.post("/api/scans", {"model": "nobody/nothing-here"}).json()["id"]
    found = over(client, job)
    assert found["problem_code"] == "error.said"
    assert re.search("[가-힣]", found["problem"])


def test_a_scan_that_fails_says_so(atlas, shared):
    client = Client(atlas_app(atlas, shared, fetch=FetchOptions(offline=True)))
    job = client.post("/api/scans", {"model": "nobody/nothing-here"}).json()["id"]
    found = over(client, job)
    assert found["state"] == "failed"
    assert found["problem"]
    assert client.get(f"/api/scans/{job}/result").status == 404


def test_an_error_of_ours_is_not_told_to_readers(client, monkeypatch, caplog):
    def broken(*args):
        raise RuntimeError("a secret path")

    monkeypatch.setattr(ScanJobs, "_of_model", broken)
    found = over(client, client.post("/api/scans", {"model": "demo:base"}).json()["id"])
    assert found["problem"] == "an error in modelkin"
    assert "secret" not in caplog.text
    assert "RuntimeError" in caplog.text


def test_the_queue_has_an_end(client, monkeypatch):
    monkeypatch.setattr("concurrent.futures.ThreadPoolExecutor.submit", lambda *args: None)
    answers = [client.post("/api/scans", {"model": "demo:base"}) for _ in range(MOST_WAITING + 1)]
    assert [answer.status for answer in answers] == [202] * MOST_WAITING + [503]
    assert answers[-1].headers["retry-after"] == "30"


# -- who may -------------------------------------------------------------------------------------------

SCAN, ADD = "/api/scans", "/api/fingerprints"


@pytest.mark.parametrize(
    ("access", "headers", "scan", "add"),
    [
        ({}, {}, 202, 403),
        ({"host": "0.0.0.0"}, {}, 403, 403),
        ({"token": TOKEN}, {}, 401, 401),
        ({"token": TOKEN}, {"authorization": "Bearer another-token-of-letters"}, 401, 401),
        ({"token": TOKEN}, {"authorization": TOKEN}, 401, 401),
        ({"token": TOKEN}, {"authorization": f"Basic {TOKEN}"}, 401, 401),
        ({"token": TOKEN}, {"authorization": f"Bearer {TOKEN}"}, 202, 200),
        ({"token": TOKEN, "host": "0.0.0.0"}, {"authorization": f"bearer {TOKEN}"}, 202, 200),
        ({}, {"authorization": f"Bearer {TOKEN}"}, 202, 403),
    ],
)
def test_only_a_token_writes(client_of, place, access, headers, scan, add):
    client = client_of(**access)
    assert client.post(SCAN, {"fingerprint": fingerprint()}, **headers).status == scan
    assert client.post(ADD, fingerprint(), **headers).status == add
    assert open_registry(str(place)).n_rows == (4 if add == 200 else 3)


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"sec_fetch_site": "cross-site"}])
def test_a_page_elsewhere_starts_nothing(client, headers):
    assert client.post(SCAN, {"model": "demo:base"}, **headers).status == 403


def test_a_form_starts_nothing(client):
    assert client.post(SCAN, {"model": "demo:base"}, content_type="text/plain").status == 415


def test_a_page_of_the_server_itself_may(client):
    headers = {"origin": "http://127.0.0.1:8765", "sec_fetch_site": "same-origin"}
    assert client.post(SCAN, {"fingerprint": fingerprint()}, **headers).status == 202


def test_a_name_that_points_here_is_not_this_server(client_of):
    assert client_of().get("/", host="evil.example").status == 421
    assert client_of().get("/", host="[::1]:8765").status == 200
    assert client_of(host="0.0.0.0").get("/", host="atlas.example").status == 200


def test_what_is_added_can_be_opened_on_the_hub_alone(client_of, place):
    client = client_of(token=TOKEN)
    for ref in ("/etc", "https://host/x", "../x/y"):
        answer = client.post(ADD, fingerprint(ref), authorization=f"Bearer {TOKEN}")
        assert answer.status == 400
    local = fingerprint()
    local["model"]["kind"] = "local"
    assert client.post(ADD, local, authorization=f"Bearer {TOKEN}").status == 400
    assert open_registry(str(place)).n_rows == 3


@pytest.mark.parametrize("change", [{"parameters": 2**70}, {"revision": "\ud800"}, {"layers": -1}])
def test_what_no_registry_can_hold_is_not_added(client_of, place, change):
    client = client_of(token=TOKEN)
    sent = fingerprint()
    sent["model"] |= change
    assert client.post(ADD, sent, authorization=f"Bearer {TOKEN}").status == 400
    assert open_registry(str(place)).n_rows == 3


def test_the_token_is_told_to_nobody(client_of, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    client = client_of(token=TOKEN)
    headers = {"authorization": f"Bearer {TOKEN}"}
    texts = [client.get(path, **headers).text for path in ("/", "/scan.html", "/openapi.json", "/x")]
    texts.append(client.post(SCAN, {"model": "/etc"}, **headers).text)
    texts += [repr(ServeAccess(token=TOKEN)), caplog.text, *capsys.readouterr()]
    assert not any(TOKEN in text for text in texts)


def test_the_form_asks_for_a_token_where_one_is_needed(client_of):
    assert 'id="token"' not in client_of().get("/scan.html").text
    assert 'id="token"' in client_of(token=TOKEN).get("/scan.html").text
    assert 'id="scan-form"' not in client_of(host="0.0.0.0").get("/scan.html").text


@pytest.mark.parametrize("token", ["", "short", "letters with \n a line break in them", "ÿ" * 20])
def test_a_token_that_can_be_guessed_or_not_sent_is_refused(token):
    with pytest.raises(UsageError, match="at least 16 printable ASCII characters"):
        ServeAccess(token=token)
