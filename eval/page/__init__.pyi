from .data import (
    PageAnswer as PageAnswer,
    PageContestant as PageContestant,
    PageData as PageData,
    PagePicture as PagePicture,
    PageSample as PageSample,
    PageTask as PageTask,
    PageTurn as PageTurn,
)
from .render import render_page as render_page
