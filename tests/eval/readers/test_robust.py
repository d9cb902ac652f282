"""Our own reader: the ways in which models answer, in tables, and its agreement with recorded
official labels."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from looktwice.eval.logs.replies import disprove_label, replies_lines
from looktwice.eval.readers import Robust
from looktwice.eval.readers.open_answers import kind_of
from looktwice.eval.readers.robust import read_choice
from looktwice.eval.replies import CHOICES
from looktwice.pipelines.model import THOUGHT_TAG, Message
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State

POINTS = CHOICES["Visual_Correspondence"]
LATER = CHOICES["Jigsaw"]
FOUR = CHOICES["Forensic_Detection"]
HELD_OUT = {"OPUS": 96.5, "GeminiProVision": 99.5, "cogvlm-chat": 99.5, "llava_v1.5_13b": 98.5}
DEVELOPED_ON = {"GPT4V": 98.5, "MiniGPT-4-v2": 93.0, "QwenVLMax": 98.0, "llava_v1.5_7b": 99.0}


def read(
    reply: str, choices: tuple[str, ...] = POINTS, subtask: str = "", question: str = ""
) -> str | None:
    return read_choice(reply, choices, subtask, question).answer


def opened(reply: str, question: str, kind: str = "auto", subtask: str = "") -> State:
    sample = Sample("s", question, meta={"subtask": subtask} if subtask else {})
    state = State(sample, messages=(Message("assistant", (reply,)),))
    return Robust(kind)(state, NoModel())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("B", "B"),
        ("b", "B"),
        ("(b)", "B"),
        ("(B).", "B"),
        ("[B]", "B"),
        ("\uff08\uff22\uff09", "B"),
        ("**B**\n", "B"),
        ("<s> C</s>", "C"),
        ("C<|im_end|>", "C"),
        ("<|assistant|> D <|endoftext|>", "D"),
        ("Option D.", "D"),
        ("Answer: b", "B"),
        ("answer: **C**", "C"),
        ("### Answer\n\n**(C) Point C**", "C"),
        (r"\boxed{B}", "B"),
        (r"Therefore $\boxed{\text{B}}$.", "B"),
        ("<answer>C</answer>", "C"),
        ("B. Point B", "B"),
        ("Point C", "C"),
        ("(C) because it is on the same corner. (A) and (B) are not.", "C"),
        ("A. The first one shows a dog while B shows a cat.", "A"),
        ("D: The point on the handle. Points A, B and C are elsewhere.", "D"),
        ("C. A is too high, B too low.", "C"),
        ("A. dog B. cat C. horse", None),
        ("A. one\nB. two", None),
        ("E", None),
        ("(E) None of the above", None),
        ("The answer is E.", None),
        ("", None),
        (" \n", None),
    ],
)
def test_letters_and_markup(reply: str, answer: str | None) -> None:
    assert read(reply) == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("The answer is (B) because (A) is further away.", "B"),
        ("The correct choice is D, since it is darker.", "D"),
        ("The answer is A man on a horse", None),
        ("I think the answer is (A). No, wait: the answer is (B).", "B"),
        ("The answer is not (A). It must be (C).", "C"),
        ("It cannot be (A).", None),
        ("I would choose (B) as the match.", "B"),
        ("I would go with Option C.", "C"),
        ("I'd say that it is point D.", "D"),
        ("Option B is the best choice here.", "B"),
        ("The correct corresponding point is:\n\n(D) Point D", "D"),
        (
            (
                "(A) Point A is on the leg.\n(B) Point B is on the ear.\n\nTherefore, the match is"
                " Point B."
            ),
            "B",
        ),
        ("(A) a river\n(B) a lake\n(C) a sea\n(D) a pond", None),
        ("The answer is (A) or (B).", None),
        ("The answer is either B or C", None),
        ("The answer is A/B", None),
        ("Both (A) and (B) match.", None),
        ("None of the points match.", None),
        ("None of the above.", None),
        ("Which of the points is it? (A) or (C)?", None),
        ("If it is on the left, the answer is (A).", None),
        ("To find the point, we need to compare (A) with the reference.", None),
        ("It is hard to say, but if I had to choose, I would pick (C).", "C"),
        ("It cannot be determined from these images.", None),
        ("I'm sorry, but I can't assist with that request.", None),
        ("Please choose one of the following: (A) (B) (C) (D)", None),
        ("<think>It could be A. No, B.</think>C", "C"),
        ("Let me see. It is A</think>\nThe answer is D", "D"),
        *((f"<{tag}>The answer is (A), or is it", None) for tag in THOUGHT_TAG.split("|")),
        ("The answer is (D", "D"),
        ("The answer is", None),
    ],
)
def test_declarations_and_what_is_none(reply: str, answer: str | None) -> None:
    assert read(reply) == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Answer: A\n\nOn second thought, that is wrong.\n\nAnswer: C", "C"),
        ("\\boxed{A}\n\nWait. \\boxed{B}", "B"),
        (
            (
                "The answer is A. Wait, REF is on the left ear; point A is on the right one. So"
                " it's B."
            ),
            "B",
        ),
        ("Point A: ear. Point B: nose. Point C: eye. REF marks the nose \u2192 B.", "B"),
        ("Initially I thought the answer was A, but it's actually B.", "B"),
        ("My previous answer was A; I now choose B.", "B"),
        ("B is correct: A is on the wrong side.", "B"),
        ("ans: c", "C"),
        ("Answer=B", "B"),
        ("answer: point c", "C"),
        ("A, B", None),
        ("(A), (C)", None),
        ("A\nB\nC\nD", None),
        ("B\nB\nB", "B"),
        ("The answer is neither A nor B; it is C.", "C"),
        ("A. I'm sorry, actually B.", "B"),
        ("A. Actually, it is B.", "B"),
        ("My answer changes from A to D.", "D"),
        ("I changed my mind to C.", "C"),
        ("B or C, probably B", "B"),
        ("(B) or maybe (C), probably (C).", "C"),
        ("C (not D)", "C"),
        ("A: roof\nB: door\nMy choice: B", "B"),
        ("Eliminating A, C and D, we are left with B.", "B"),
        ("I would say A or C, but leaning towards C.", "C"),
        ("A. roof \u274c\nB. door \u2705\nC. wall \u274c\nD. tree \u274c", "B"),
        ("A \u274c B \u274c C \u2705 D \u274c", "C"),
        ("A \u2705 B \u274c", "A"),
        ("(A) roof - No\n(B) door - Yes\n(C) wall - No", "B"),
        ("\uc815\ub2f5\uc740 B\uc785\ub2c8\ub2e4.", "B"),
        ("\u6b63\u89e3\u306fB\u3067\u3059\u3002", "B"),
    ],
)
def test_second_thoughts_lists_and_ticks(reply: str, answer: str | None) -> None:
    assert read(reply) == answer


@pytest.mark.parametrize(
    ("reply", "subtask", "answer"),
    [
        ("Point A is in front of point B.", "Relative_Depth", "A"),
        ("Point A is not in front of point B.", "Relative_Depth", "B"),
        ("Point A seems to be behind point B.", "Relative_Depth", "B"),
        ("A is closer. It stands in front of point B.", "Relative_Depth", "A"),
        ("A's location is closer.", "Relative_Depth", "A"),
        ("A is lighter than B.", "Relative_Reflectance", "B"),
        (
            "The surface at point A is lighter than the surface at point B.",
            "Relative_Reflectance",
            "B",
        ),
        ("Although A is in shadow, B's surface is darker.", "Relative_Reflectance", "B"),
        (
            "There is no noticeable difference between the two surfaces.",
            "Relative_Reflectance",
            "C",
        ),
        ("The two points look equally dark.", "Relative_Reflectance", "C"),
        ("The camera is moving from left to right.", "Multi-view_Reasoning", "B"),
        ("It moved from the right side to the left side.", "Multi-view_Reasoning", "A"),
        ("Point A is at a greater distance from the camera.", "Relative_Depth", "B"),
        ("Neither is darker.", "Relative_Reflectance", "C"),
        ("Images 1, 2, and 4 are AI-generated.", "Forensic_Detection", "C"),
        (
            "The first, second and fourth images are generated; the third is real.",
            "Forensic_Detection",
            "C",
        ),
        ("(B) rather than (A).", "Jigsaw", "B"),
        ("Not (A).", "Jigsaw", "B"),
        ("It is not (A).", "Jigsaw", "B"),
        ("It isn't B.", "Jigsaw", "A"),
        ("(A) is wrong, (B) is right.", "Jigsaw", "B"),
        ("(A) and (B) are wrong.", "Jigsaw", None),
        ("The third.", "Jigsaw", "B"),
        ("No image was provided.", "Spatial_Relation", None),
        ("No idea", "Spatial_Relation", None),
        ("\u6ca1\u6709", "Spatial_Relation", "B"),
    ],
)
def test_comparisons_denials_and_directions(reply: str, subtask: str, answer: str | None) -> None:
    assert read(reply, CHOICES[subtask], subtask) == answer


@pytest.mark.parametrize(
    ("reply", "subtask", "answer"),
    [
        ("Point B is closer to the camera than point A.", "Relative_Depth", "B"),
        ("B is closer than A.", "Relative_Depth", "B"),
        ("Point A, which is circled on the wheel, is closer to the camera.", "Relative_Depth", "A"),
        ("Compared to point A, point B appears nearer.", "Relative_Depth", "B"),
        ("Point A is further away from the camera.", "Relative_Depth", "B"),
        ("Point B is further back, closer to the people at the table.", "Relative_Depth", "A"),
        ("Point A is not closer to the camera than B.", "Relative_Depth", "B"),
        ("Both points are equally close.", "Relative_Depth", None),
        (
            "B is darker. Point B is on the wall, while point A is on a darker door.",
            "Relative_Reflectance",
            "B",
        ),
        (
            "The surface colors at points A and B appear to be about the same.",
            "Relative Reflectance",
            "C",
        ),
        (
            "Box B more accurately encloses the cat. Box A, however, is too large.",
            "Object_Localization",
            "B",
        ),
        ("Box A does not fit the cat as accurately as Box B does.", "Object_Localization", "B"),
        (
            (
                'The point labeled "REF" in the first image corresponds to point "C" in the second'
                " image."
            ),
            "Visual_Correspondence",
            "C",
        ),
        (
            (
                "The corresponding point for the reference point (REF) on the first image is"
                " therefore Point D."
            ),
            "Semantic_Correspondence",
            "D",
        ),
        (
            (
                "- Point A is on the seat.\n- Point B is on the leg.\n\nPoint B corresponds to the"
                " reference point."
            ),
            "Functional_Correspondence",
            "B",
        ),
        (
            "The third image is most similar to the first one. The second image is a close-up.",
            "Visual_Similarity",
            "B",
        ),
        ("The third image (C) is most similar to the first image.", "Visual_Similarity", "B"),
        ("Image 2 is the most similar to Image 1.", "Visual_Similarity", "A"),
        ("The first image is most similar to the third one.", "Visual_Similarity", "B"),
        (
            "Therefore, the second image shares the same style as the reference image.",
            "Art_Style",
            "A",
        ),
        (
            "Neither the second nor the third image shares the same style as the reference image.",
            "Art_Style",
            None,
        ),
        ("The missing part is the second image.", "Jigsaw", "A"),
        ("I cannot select either option (A) or (B).", "Jigsaw", None),
        (
            "While the second image fits the colours, the third image is the better fit.",
            "Jigsaw",
            "B",
        ),
        (
            "My assessment is that the fourth image is most likely to be a real photograph.",
            "Forensic_Detection",
            "D",
        ),
        (
            "The third and fourth images are more likely to be real photographs.",
            "Forensic_Detection",
            None,
        ),
        ("Picture C follows the same pattern.", "IQ_Test", "C"),
        (
            "The camera is moving to the right (clockwise) around the object.",
            "Multi-view_Reasoning",
            "B",
        ),
        (
            "The camera is moving right. The cup is on the left side of the second image.",
            "Multi-view Reasoning",
            "B",
        ),
        ("Yes, it is.", "Spatial_Relation", "A"),
        ("No", "Spatial_Relation", "B"),
        ("Correct.", "Spatial_Relation", "A"),
        ("I believe so.", "Spatial_Relation", "A"),
        ("I don't think so, it is in front of it.", "Spatial_Relation", "B"),
        ("Absolutely not!", "Spatial_Relation", "B"),
        ("False", "Spatial_Relation", "B"),
        ("Correct answer: no", "Spatial_Relation", "B"),
        ("There is no car in this image.", "Spatial_Relation", None),
        ("The dog is not on top of the car.", "Spatial_Relation", "B"),
    ],
)
def test_the_words_of_a_subtask(reply: str, subtask: str, answer: str | None) -> None:
    assert read(reply, CHOICES[subtask.replace(" ", "_")], subtask) == answer


@pytest.mark.parametrize(
    ("reply", "subtask", "answer"),
    [
        ("(A) A is closer\n(B) B is closer\n\nAnswer: (B)", "Relative_Depth", "B"),
        ("(A) A is closer\n(B) B is closer", "Relative_Depth", None),
        ("(A) A is darker (B) B is darker (C) About the same", "Relative_Reflectance", None),
        (
            (
                "Select from the following choices.\n(A) the second image\n(B) the third"
                " image\n\nthe third"
            ),
            "Jigsaw",
            "B",
        ),
        ("Is the car beneath the cat? No, it is not.", "Spatial_Relation", "B"),
        ("Q: Is the car beneath the cat?\nA: No", "Spatial_Relation", "B"),
        ("Between A and B, A is closer.", "Relative_Depth", "A"),
        ("Between the second and third images, the second image is a better match.", "Jigsaw", "A"),
        (
            "- Image 1: soft\n- Image 2: natural\n\nThe real photograph is image 2.",
            "Forensic_Detection",
            "B",
        ),
        ("Image 1: AI\nImage 2: AI\nImage 3: Real\nImage 4: AI", "Forensic_Detection", "C"),
    ],
)
def test_what_repeats_the_question_is_no_answer(
    reply: str, subtask: str, answer: str | None
) -> None:
    assert read(reply, CHOICES[subtask], subtask) == answer


@pytest.mark.parametrize(
    ("reply", "subtask", "answer"),
    [
        ("The right answer is A (A is closer).", "Relative_Depth", "A"),
        ("The corresponding point is C (the bird's beak).", "Semantic_Correspondence", "C"),
        ("The answer is: d", "Visual_Correspondence", "D"),
        ("Sequence: A, B, C... each figure adds one line. Answer D.", "IQ_Test", "D"),
        ("A it is", "Visual_Correspondence", "A"),
        ("Probably B, but I'm not 100% certain.", "Visual_Correspondence", "B"),
        ("A seems too high. B seems right. C and D are off.", "Visual_Correspondence", "B"),
        ("Points A, B, and D do not match; only C does.", "Visual_Correspondence", "C"),
        ("Not A, B or D.", "Visual_Correspondence", "C"),
        (
            (
                "A corresponds to the roof, B corresponds to the wall, C corresponds to the REF"
                " point, and D to the door."
            ),
            "Visual_Correspondence",
            "C",
        ),
        ("[THINK]A? B?[/THINK]C", "Visual_Correspondence", "C"),
        (
            "\u25c1think\u25b7maybe A\u25c1/think\u25b7The answer is (B).",
            "Visual_Correspondence",
            "B",
        ),
        ("Point A is brighter.", "Relative_Reflectance", "B"),
        ("Neither A nor B is darker.", "Relative_Reflectance", "C"),
        (
            "The wall at A is cream while the wall at B is cream, too: about the same.",
            "Relative_Reflectance",
            "C",
        ),
        (
            "There is little to no difference in the surface color between A and B.",
            "Relative_Reflectance",
            "C",
        ),
        ("Box A is too large, and Box B tightly encloses the dog.", "Object_Localization", "B"),
        ("Box A fully encloses the bus while Box B misses the wheel.", "Object_Localization", "A"),
        (
            "I cannot identify people in images. However, the second image matches the black area.",
            "Jigsaw",
            "A",
        ),
        ("\u7b2c\u4e09\u5f20\u56fe\u7247", "Jigsaw", "B"),
        ("The two images of the same style are the first and the third.", "Art_Style", "B"),
        (
            "The shape in choice B can be obtained by folding. Choices A, C, and D cannot.",
            "IQ_Test",
            "B",
        ),
        ("point a is closer to the camera.", "Relative_Depth", "A"),
        ("The A point is closer to the camera than the B point.", "Relative_Depth", "A"),
        (
            "Box B covers only part of the dog whereas Box A covers it entirely.",
            "Object_Localization",
            "A",
        ),
        ("Box A does not include the tail.", "Object_Localization", "B"),
        ("Point A and point B have similar colors.", "Relative_Reflectance", "C"),
        ("No difference", "Relative_Reflectance", "C"),
        (
            "The truck is in front of it, so the answer to the question is 'no'.",
            "Spatial_Relation",
            "B",
        ),
        ("The statement is true.", "Spatial_Relation", "A"),
        ("It is.", "Spatial_Relation", "A"),
        ("Not really.", "Spatial_Relation", "B"),
    ],
)
def test_turns_of_phrase_of_newer_models(reply: str, subtask: str, answer: str | None) -> None:
    assert read(reply, CHOICES[subtask], subtask) == answer


@pytest.mark.parametrize(
    ("reply", "choices", "answer"),
    [
        ("There are 3 boats.", ("2", "3", "13", "0"), "B"),
        ("There are three boats.", ("2", "3", "13", "0"), "B"),
        ("There are 13 boats.", ("2", "3", "13", "0"), "C"),
        ("There are no boats.", ("2", "3", "13", "0"), "D"),
        ("(C) 13\n\nThere are more than 3.", ("2", "3", "13", "0"), "C"),
        ("the red box", ("box", "red box"), "B"),
        ("Blue car", ("a red car", "a blue car"), "B"),
        ("12 + 9 = 21", ("12", "21", "3", "30"), "B"),
        ("It shows a teddy bear.", ("teddy bear", "rabbit", "cat"), "A"),
        ("I see 13 people, though some may be statues, so 3.", ("2", "3", "13", "0"), "B"),
        ("There are none.", ("2", "3", "13", "0"), "D"),
        ("There aren't any boats.", ("2", "3", "13", "0"), "D"),
        ("1 boat on the left + 2 on the right = 3 boats.", ("2", "3", "13", "0"), "B"),
        ("2 + 3 = 5", ("2", "3", "5", "0"), "C"),
        ("There are two visible and one hidden, so three in total.", ("2", "3", "1", "0"), "B"),
        ("\u67093\u4e2a", ("2", "3", "13", "0"), "B"),
        ("1. First boat\n2. Second boat\n3. Third boat\n\nTotal: 3", ("2", "3", "13", "0"), "B"),
        ("It's a dog, not a cat.", ("cat", "dog", "bird"), "B"),
        ("About the same brightness.", ("A is darker", "B is darker", "About the same"), "C"),
        ("B is closer than A", ("A is closer", "B is closer"), None),
    ],
)
def test_the_texts_of_the_choices(reply: str, choices: tuple[str, ...], answer: str | None) -> None:
    assert read(reply, choices, "Counting" if choices[0].isdigit() else "") == answer


@pytest.mark.parametrize(
    ("reply", "choices", "answer"),
    [
        ("Ja, das stimmt.", ("yes", "no"), "A"),
        ("Nein.", ("yes", "no"), "B"),
        ("Oui", ("yes", "no"), "A"),
        ("Non, il est devant.", ("yes", "no"), "B"),
        ("Sí, lo es.", ("yes", "no"), "A"),
        ("No, está a la izquierda.", ("yes", "no"), "B"),
        ("是的\uff0c它在左边。", ("yes", "no"), "A"),
        ("不是", ("yes", "no"), "B"),
        ("はい、そうです。", ("yes", "no"), "A"),
        ("いいえ", ("yes", "no"), "B"),
        ("Nach links.", ("left", "right"), "A"),
        ("nach rechts", ("left", "right"), "B"),
        ("à gauche", ("left", "right"), "A"),
        ("a la derecha", ("left", "right"), "B"),
        ("向左", ("left", "right"), "A"),
        ("右", ("left", "right"), "B"),
        ("That is the right answer: left", ("left", "right"), "A"),
        ("La segunda imagen.", LATER, "A"),
        ("Das dritte Bild ist ähnlicher.", LATER, "B"),
        ("La troisième image", LATER, "B"),
        ("A terceira imagem.", LATER, "B"),
        ("the last image", LATER, "B"),
        ("The last one is real.", FOUR, "D"),
        ("答案是B", POINTS, "B"),
        ("答え\uff1aC", POINTS, "C"),
        ("Die Antwort ist C.", POINTS, "C"),
        ("La respuesta es: B", POINTS, "B"),
        ("Réponse : D", POINTS, "D"),
    ],
)
def test_other_languages(reply: str, choices: tuple[str, ...], answer: str | None) -> None:
    assert read(reply, choices) == answer


def test_a_statement_answers_a_question_that_it_repeats() -> None:
    question = "Is the car beneath the cat?"
    assert read("The car is beneath the cat.", ("yes", "no"), "Spatial_Relation", question) == "A"
    assert (
        read("The car is not beneath the cat.", ("yes", "no"), "Spatial_Relation", question) == "B"
    )
    assert (
        read(
            "It is unclear whether the car is beneath the cat.",
            ("yes", "no"),
            "Spatial_Relation",
            question,
        )
        is None
    )


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("The answer is (B) no, so the option (A) yes is incorrect.", "B"),
        ("(A) is far. (B) is near.", None),
        ("(A) looks old. (B) looks new.\n\nI would choose (B).", "B"),
        ("It shows the same corner as point C.", "C"),
        ("It is not Point C.", None),
        ("Point A and Point C are close.", None),
        ("Point C is close. I don't see another one.", "C"),
        ("I am sorry, I cannot help with that.", None),
    ],
)
def test_several_choices_and_negations(reply: str, answer: str | None) -> None:
    assert read(reply) == answer


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "empty"),
        ("<think>it may be (B)", "cut_off"),
        ("I'm sorry, but I can't assist with that request.", "refused"),
        ("It is not possible to determine which point it is.", "refused"),
        ("None of the points match.", "unread: it names several choices, or none of them"),
        ("(E)", "unread: it names E, which is not among A, B, C, D"),
        ("What a nice picture.", "unread: no choice is declared"),
    ],
)
def test_there_is_a_reason_where_there_is_no_answer(reply: str, reason: str) -> None:
    assert read_choice(reply, POINTS).reason.startswith(reason)


@pytest.mark.parametrize(
    ("reply", "kind", "answer"),
    [
        ("T", "true_false", "T"),
        ("false", "true_false", "F"),
        ("**True**.", "true_false", "T"),
        ("The statement is true, because it's the same bag.", "true_false", "T"),
        ("The statement is not true.", "true_false", "F"),
        ("The correct answer is 'F'.", "true_false", "F"),
        ("对", "true_false", "T"),
        ("不对", "true_false", "F"),
        ("N", "yes_no", "no"),
        ("There are 4 images, but only 3 different cups.", "integer", "3"),
        ("1, 2, 3, so 3", "integer", "3"),
        ("1. A\n2. B\n3. C", "letters", "ABC"),
        ("True or false? The answer is F.", "true_false", "F"),
        ("I don't know", "true_false", None),
        ("Wahr", "true_false", "T"),
        ("假", "true_false", "F"),
        ("This isn't true.", "true_false", "F"),
        ("I don't think the statement is true.", "true_false", "F"),
        ("On the right side there is a red bag.", "true_false", None),
        ("He wears a T-shirt.", "true_false", None),
        ("The answer is True or False.", "true_false", None),
        ("Yes, there is no doubt about it.", "yes_no", "yes"),
        ("The answer is 7. There are 3 in the first row.", "integer", "7"),
        ("There are 3 red and 4 blue shapes, making 7 in total.", "integer", "7"),
        ("3 + 4 = 7", "integer", "7"),
        ("There are twenty one dots", "integer", "21"),
        ("twenty-four", "integer", "24"),
        ("3.0", "integer", "3"),
        ("3.5", "integer", None),
        ("There are no red circles.", "integer", "0"),
        ("\u7b54\u6848\u662f3\u4e2a", "integer", "3"),
        ("I see the letters A, B and C.", "letters", "ABC"),
        ("The letters are I and O.", "letters", "IO"),
        ("The image has two letters: X and W", "letters", "XW"),
        ("First letter: X\nSecond letter: W", "letters", "XW"),
        ("The word reads 'EPSY'", "letters", "EPSY"),
        ("Yes.", "yes_no", "yes"),
        ("The answer is no.", "yes_no", "no"),
        ("Ja", "yes_no", "yes"),
        ("I think so.", "yes_no", "yes"),
        ("I do not think so.", "yes_no", "no"),
        ("Certainly not, it is red.", "yes_no", "no"),
        ("Maybe yes, maybe no", "yes_no", None),
        ("3", "integer", "3"),
        ("three", "integer", "3"),
        ("There are twelve shapes.", "integer", "12"),
        ("2 (two)", "integer", "2"),
        ("I count 3 on the left and 4 on the right. Answer: 7", "integer", "7"),
        ("In row 2 and column 3 there are 5 circles, so the answer is **5**.", "integer", "5"),
        ("Option 4", "integer", "4"),
        ("1,204", "integer", "1204"),
        ("There are zero of them.", "integer", "0"),
        ("one or two", "integer", None),
        ("none that I can see", "integer", None),
        ("AXQ", "letters", "AXQ"),
        ("The letters are: A, X, Q.", "letters", "AXQ"),
        ("The letters are A X Q", "letters", "AXQ"),
        ("axq", "letters", "AXQ"),
        ("I cannot read them.", "letters", None),
        (" A red bag.\n", "text", "A red bag."),
    ],
)
def test_open_answers(reply: str, kind: str, answer: str | None) -> None:
    state = opened(reply, "?", kind)
    assert state.answer == answer
    assert bool(state.reason) == (answer is None)


@pytest.mark.parametrize(
    ("question", "subtask", "kind"),
    [
        ("Is the answer 'a bag' correct? Answer T or F.", "", "true_false"),
        ("Answer yes or no: is it red?", "", "yes_no"),
        ("Are the two groups alike?", "", "yes_no"),
        ("How many stars are there?", "", "integer"),
        ("Respond as follows: Option <your answer, 1 to 4>.", "", "integer"),
        ("Respond with the letters only.", "", "letters"),
        ("Look.", "letter_disambiguation", "letters"),
        ("Describe the video.", "", "text"),
    ],
)
def test_what_a_question_asks_for(question: str, subtask: str, kind: str) -> None:
    assert kind_of(question, subtask) == kind


def test_the_reader_finds_the_kind_by_itself() -> None:
    assert opened("There are three.", "How many bags are there?").answer == "3"
    assert opened("It reads A X Q", "Look.", subtask="letter_disambiguation").answer == "AXQ"
    assert opened("B", "Which one?", "choice").reason == "unread: the sample has no choices"


def test_labels_that_the_reply_proves_wrong() -> None:
    def proof(
        reply: str, label: str | None, answer: str | None, subtask: str = "Visual_Similarity"
    ) -> str:
        row = {"reply": reply, "task": subtask, "choices": CHOICES[subtask]}
        return disprove_label(row, label or "", answer or "")

    assert (
        proof("The second image is most similar to the first.", "B", "A")
        == "the reply names A alone"
    )
    assert proof("(C)", "C", None) == "the label is C, and there are only A to B"
    assert proof("What a nice picture.", "A", None) == "the reply names no choice"
    assert proof("A", None, "A") == "the reply is A and nothing more"
    both = "The third image shows a cat. Therefore, the second image is most similar to the first."
    assert proof(both, "B", "A") == "the reply claims A and nowhere B"
    assert proof("It could be the second or the third image.", "A", None) == ""
    assert proof("The second image is most similar to the first.", "A", "A") == ""


def every(step: int, source: Path, folder: Path) -> Path:
    """A file of every `step`-th reply of a file."""
    kept = folder / source.name
    kept.write_bytes(
        gzip.compress(b"".join(gzip.decompress(source.read_bytes()).splitlines(True)[::step]), 1)
    )
    return kept


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_agreement_with_the_recorded_official_labels(
    shared_data: Path, tmp_path: Path, step: int
) -> None:
    """At least 98 % of all, and on the four models that no rule was made on as well; few
    contradictions."""
    files = [
        every(step, file, tmp_path)
        for file in sorted((shared_data / "blink_replies").glob("*.jsonl.gz"))
    ]
    listing = tmp_path / "differ.txt"
    lines = dict(
        line.split(": ", 1) for line in replies_lines(files, "robust", disagreements=listing)
    )
    disagreements = int(lines.pop("disagreements").split()[0])
    found = {name: float(line.split("agreement=")[1].split("%")[0]) for name, line in lines.items()}
    total = int(lines["total"].split(",")[0].removeprefix("n="))
    assert total == 30_456 if step == 1 else total >= 30_456 // step
    assert found["total"] >= 98.0
    for name, least in {**HELD_OUT, **DEVELOPED_ON}.items():
        assert found[name] >= least, name
    kinds = dict(
        line[2:].rsplit(": ", 1)
        for line in listing.read_text().splitlines()
        if line.startswith("# ")
    )
    assert sum(int(count) for count in kinds.values()) == disagreements
    assert int(kinds["two different letters"]) < 0.005 * total
