"""What speaks against an explanation that was just made, said in a sentence each."""

from tempograd.engine.guess import objection
from tempograd.engine.question import Question
from tempograd.engine.second_look import SecondLook, answers_differ, trust
from tempograd.engine.touched import across, caution
from tempograd.errors import warn


def warn_of_doubts(question: Question, look: SecondLook | None) -> None:
    """Warn of a guess that the values deny, and of axes that changed places."""
    answers = question.answered()
    if answers is not None and question.guessed and question.output == "probability":
        message = objection(answers, question.x[: len(answers)], sigmoid=look is not None and look.sigmoid)
        if message is not None:
            warn(message)
    touch = None if look is None else across(look.touched, look.x)
    if touch is not None and look is not None:
        warn(caution(touch, look.x))


def varied(question: Question, look: SecondLook | None) -> bool:
    """Tell whether the model answers the same series differently."""
    answers = question.answered()
    if answers is None or look is None:
        return False
    differ = answers_differ(question.model, answers, look)
    if not differ:
        trust(question.model, look)
    return differ


def warn_of_noise() -> None:
    """Warn of a model that draws."""
    warn(
        "The model answers the same series differently when it is asked again, so the scores hold its noise: pass "
        "draws=32 to average over its random numbers, with an error."
    )
