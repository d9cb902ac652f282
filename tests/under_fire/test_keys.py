"""A key is in no artefact of a run, whatever a server or a setting does with it."""

import html
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from bench.soak.hostile_server import Answer, Json, Script, completion, hostile_server, http
from looktwice.eval.readers import Robust
from looktwice.eval.records import Record, RunFolder
from looktwice.eval.records.writer import RunWriter, describe_failure, describe_reply
from looktwice.pipelines import Message, Sample, State
from looktwice.pipelines.model import ModelError, Reply, ToolCall
from looktwice.pipelines.models import ChatAPI
from looktwice.pipelines.models.answers import read_response
from looktwice.pipelines.models.http_client import HttpResponse
from looktwice.pipelines.models.keys import mask_keys
from looktwice.pipelines.pipeline import NoModel
from tests.under_fire.scenes import RUN, run_command, write_questions

SECRET = "sk-fire-7Hq2mVx9Zt41Wb8Q"
ODD = 'sk-"odd"\\key:\\n{x%41}&lt;#7'
ASKED = (Message("user", ("Which?",)),)
STUDY = """
task: {{use: eval.tasks.Folder, path: own}}
model: {{use: pipelines.models.ChatAPI, model: tiny, url: "{url}", timeout: 20}}
stages:
  look:
    use: prompting.agent.Agent
    tools: {{zoom: {{use: prompting.agent.Zoom}}, answer: {{use: prompting.agent.Answer}}}}
    reader: {{use: eval.readers.WholeReply}}
contestants:
  native: {{}}
  tagged: {{stages: {{look: {{protocol: {{use: prompting.agent.TaggedCalls}}}}}}}}
  plain: {{stages: {{look: {{protocol: {{use: prompting.agent.PlainCalls}}}}}}}}
"""
SPELLINGS: list[Callable[[str], str]] = [
    lambda key: json.dumps(key)[1:-1],
    lambda key: json.dumps(quote(key))[1:-1],
    lambda key: json.dumps(quote(key, safe=""))[1:-1],
    lambda key: json.dumps(html.escape(key))[1:-1],
]


def decode_all(text: str) -> str:
    """Return a text and its decodings from JSON, URLs and HTML."""
    json_read = text.replace('\\"', '"').replace("\\\\", "\\")
    return "\n".join([text, unquote(text), html.unescape(text), json_read, unquote(json_read)])


@pytest.fixture(params=[SECRET, ODD], ids=["usual", "odd"])
def key(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The key of the server, in a folder with a question for every spelling."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", request.param)
    monkeypatch.setenv("LOOKTWICE_KEYS", "127.0.0.1=MY_KEY")
    questions = (f"Case {number}." for number in range(len(SPELLINGS)))
    write_questions(*({"question": text, "images": ["p.png"]} for text in questions), side=60)
    yield request.param


def echo(key: str) -> Script:
    """The first reply calls a tool with the key in it, the second gives the key as the answer."""

    def script(body: Json, before: int) -> Answer:
        said = json.dumps(body["messages"])
        number = re.search(r"Case (\d+)\.", said)
        spelt = SPELLINGS[int(number[1]) if number else 0](key)
        arguments = f'{{"image": "{spelt}"}}'
        text = f"CALL zoom {arguments}"
        if any(message["role"] == "assistant" for message in body["messages"]):
            text = f"ANSWER: {spelt}"
        elif "tools" in body:
            call = {"id": spelt, "function": {"name": "zoom", "arguments": arguments}}
            message: Json = {"content": None, "tool_calls": [call, call | {"id": "b"}]}
            choice = {"message": message, "finish_reason": "tool_calls"}
            return Answer(http(200, json.dumps(completion(choices=[choice])).encode()))
        elif "<tools>" in said:
            text = f'<tool_call>{{"name": "zoom", "arguments": {arguments}}}</tool_call>'
        return Answer(http(200, json.dumps(completion(text)).encode()))

    return script


@pytest.mark.slow
def test_a_key_occurs_in_no_artefact_however_a_server_spells_it(key: str) -> None:
    with hostile_server(echo(key)) as server:
        Path("study.yaml").write_text(STUDY.format(url=server.url))
        said = [run_command(0, "run", "study.yaml")]
    records = RunFolder(RUN).records().values()
    assert len(records) == 3 * len(SPELLINGS) and not any(record.error for record in records)
    commands = ["score RUN --report", "view RUN --sample q1", "view RUN --sample q1 --out one.html"]
    for command in (*commands, "export RUN --to trajectories --out t.jsonl"):
        said.append(run_command(0, *command.replace("RUN", str(RUN)).split()))
    Path("terminal").write_text("\n".join(said))
    for path in (path for path in Path().rglob("*") if path.is_file()):
        assert key not in decode_all(path.read_text(errors="replace")), path


WORDED = "{words: {use: prompting.wording.Template, text: %s}, ask: {use: prompting.turns.Ask}}"
ASKS = "{ask: {use: prompting.turns.Ask}}\ncontestants: {%s}"
LEFT = "plain: {}, b: {needs: {env: NOT_SET_HERE}, stages: {ask: {system: TEXT}}}"
SETTINGS = {
    WORDED % "TEXT": "stages.words.text",
    WORDED % "{file: words.txt}": "contestants.plain.spec.stages.words.text",
    ASKS % LEFT: "contestants.b.stages.ask.system",  # no request is sent to it
    ASKS % "TEXT: {}": "contestants holds a key",
}


@pytest.mark.parametrize("stages", SETTINGS)
def test_a_key_in_any_setting_is_refused_with_its_place(key: str, stages: str) -> None:
    Path("words.txt").write_text(f"Use {key} now.")
    model = "{use: pipelines.models.Scripted, answer: x}"
    study = f"task: {{use: eval.tasks.Folder, path: own}}\nmodel: {model}\nstages: {stages}\n"
    Path("study.yaml").write_text(study.replace("TEXT", json.dumps(f"Use {key} now.")))
    for command in ("check", "run"):
        said = run_command(2, command, "study.yaml")
        assert SETTINGS[stages] in said and "holds a key" in said and key not in decode_all(said)
    assert not [
        path for path in Path("runs").rglob("*.yaml") if key in decode_all(path.read_text())
    ]


@pytest.mark.parametrize(
    "setting", ["model.temperature", "model.url", "task.path", "stages.ask.nothing", "nothing"]
)
def test_a_fault_never_repeats_a_key(key: str, setting: str) -> None:
    Path("study.yaml").write_text(STUDY.format(url="http://127.0.0.1:9/v1"))
    assert key not in decode_all(
        run_command(2, "check", "study.yaml", f"{setting}={json.dumps(key)}")
    )


def test_an_impossible_key_gives_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKTWICE_KEYS", "127.0.0.1=MY_KEY")
    for wrong in ("sk-half-a-key\nof-two-lines", "sk-with a space", "sk-k\u00e9y", "sk-\udcff-key"):
        monkeypatch.setenv("MY_KEY", wrong)
        with pytest.raises(ModelError, match="MY_KEY") as raised:
            ChatAPI("tiny", url="http://127.0.0.1:9/v1").check()
        assert "sk-" not in str(raised.value)


def test_a_key_in_malformed_http_is_in_no_record(key: str) -> None:
    raw = f"HTTP/1.1 {key} Said\r\nX: y\r\n\r\n".encode()
    with hostile_server(lambda body, before: Answer(raw, cut=True)) as server:
        model = ChatAPI("tiny", url=server.url)
        with pytest.raises(ModelError, match=r"Bad status line|broke the connection") as raised:
            model(ASKED)
    assert key not in decode_all(f"{raised.value}\n{describe_failure(raised.value)}")


def test_the_password_of_a_proxy_is_in_no_message(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with hostile_server(lambda body, before: Answer(b"")) as server:  # CONNECT is unsupported
        place = server.url.removeprefix("http://").removesuffix("/v1")
        monkeypatch.setenv("https_proxy", f"http://user:hunter2@{place}")
        with pytest.raises(ModelError) as raised:
            ChatAPI("tiny", url="https://api.openai.com/v1", timeout=5)(ASKED)
    assert "hunter2" not in str(raised.value) + describe_failure(raised.value)


def test_tokens_that_spell_a_key_are_removed(key: str) -> None:
    tokens = [{"token": part, "logprob": -1.0} for part in (key[:5], key[5:], "!")]
    choice = {"message": {"content": f"{key}!"}, "logprobs": {"content": tokens}}
    response = HttpResponse(200, {}, json.dumps({"choices": [choice]}).encode())
    reply = read_response(response, "http://127.0.0.1/v1", 0.1)
    assert (reply.text, reply.logprobs) == ("***!", ())


def test_a_key_split_by_markup_is_in_no_answer(key: str) -> None:
    torn = f"<b>{key[:6]}</b>{key[6:]}" if key == ODD else f"**{key[:6]}**{key[6:]}"
    said = State(Sample("s", "Which name?"), messages=(Message("assistant", (torn,)),))
    assert key not in str(Robust()(said, NoModel()).answer)


def test_a_key_added_by_a_stage_is_in_no_record(key: str, tmp_path: Path) -> None:
    reply = Reply(f"it is {key}", tool_calls=(ToolCall(key, "zoom", json.dumps({"at": key})),))
    calls = ({"messages": [], "draw": 0, "reply": describe_reply(reply)},)
    record = Record("p", "s", "0" * 64, answer=key, calls=calls, notes=(f"found {key}",))
    with RunWriter(tmp_path / "run") as writer:
        written = writer.record(record)
    text = (tmp_path / "run" / "records.jsonl").read_text()
    assert key not in decode_all(text) and Record.from_line(text) == written
    assert (written.answer, written.notes) == ("***", ("found ***",))
    assert written.last_reply is not None and written.last_reply["text"] == "it is ***"


def test_other_texts_are_unchanged(key: str) -> None:
    for text in ("", "100 % sure; 5 &lt; 6 \\frac{1}{2} \\u00e9", "%zz \\u12 &nosuch; \ud83d", "*"):
        assert mask_keys(text) == text
