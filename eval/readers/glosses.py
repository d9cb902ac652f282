"""Replies in other languages, put into English word by word, so that the rules for English read them.

Only the words that carry a claim are put into English: comparisons, negations, verbs of being, conclusions, numbers.
A language is added as a table: a pattern, `=`, and what stands for it, applied from top to bottom.
"""

from __future__ import annotations

import re
from functools import lru_cache

_GERMAN = r"""
(?:die |den )?(?:gleiche|selbe)n? (?:farbe|farben|ton|farbton) = the same color
unterschied = difference
nur wegen = only because of
nur = only
kann only ([A-H]) sein = must be \1
zuerst|anfangs = at first
exakt|genau = correct
es(?= must) = it
das stimmt nicht|das ist nicht (?:richtig|wahr|korrekt)|stimmt nicht = that is not correct
das stimmt|stimmt|das ist (?:richtig|wahr|korrekt) = that is correct
(?:am )?nächsten?|nächstgelegene[rn]? = closest
näher(?:e[rnms]?)? = closer
weiter (?:weg|entfernt|hinten)|entfernter(?:e[rnms]?)?|ferner = farther
hintergrund = background
vordergrund = foreground
(?:gleich|ähnlich) (?:dunkel|hell)|dieselbe farbe = about the same
(?:(?:etwa|ungefähr|ziemlich|fast) )?gleich|(?:etwa|fast) dasselbe = about the same
dunkler(?:e[rnms]?)?|dunkelste[rn]? = darker
heller(?:e[rnms]?)?|hellste[rn]? = lighter
hinter = behind
vor = in front of
als = than
sondern = but
keine[nmrs]?\W*\Z = none
kein(?:e[nmrs]?)? = no
nicht = not
(?:es|hier) (?:gibt|sind)|es gibt|man sieht|(?:ist|sind) zu sehen = there are
ich sehe = i see
ich zähle = i count
insgesamt = in total
beim (?:zweiten|erneuten|genaueren) hinsehen|bei genauerem hinsehen = looking again
moment|warte = wait
ich würde ([\w ]{1,30}?) wählen|ich wähle ([\w ]{1,30}) = i would choose \1\2
(?:also|daher|somit|folglich|deshalb|demnach) = therefore
obwohl|auch wenn = although
während = while
denn|weil|da = because
([A-H]) (closer|farther|darker|lighter)((?: [^\s,.]+){0,3}?) ist = \1 is \2\3
ich (?:denke|glaube) = i think
dass = that
und = and
oder = or
sowohl = both
weder = neither
noch = nor
antwort = answer
richtige[rns]?|korrekte[rns]? = correct
richtig|korrekt|wahr = correct
falsch = wrong
lautet = is
entspricht(?: dem)? = corresponds to
passt = matches
(?:ist|liegt|befindet sich|scheint|erscheint|steht)(?: zu)? = is
wirkt|sieht = looks
sind|liegen|befinden sich = are
haben = have
hat = has
punkt = point
(?:zur|an der|bei der) kamera = to the camera
kamera = camera
fläche|oberfläche = surface
erste bild = first image
zweite bild = second image
dritte bild = third image
vierte bild = fourth image
am ehesten|am wahrscheinlichsten = most likely
echt(?:e[nrs]?)? = real
künstlich|generiert = generated
zwei = two
drei = three
vier = four
fünf = five
sechs = six
sieben = seven
acht = eight
neun = nine
zehn = ten
elf = eleven
zwölf = twelve
null = zero
ein(?:s|e[nrms]?)? = one
das|der|die|dem|den = the
"""
_FRENCH = r"""
(?:la |le )?même (?:teinte|ton|couleur) = the same color
différence = difference
seulement|uniquement = only
à cause d(?:e|u) = because of
au début|au premier abord = at first
exact(?:ement)? = correct
zéro = zero
(?:ce n'est pas|c'est pas) (?:vrai|exact|correct|le cas) = that is not correct
c'est (?:vrai|exact|correct) = that is correct
plus (?:proche|près) = closer
plus (?:éloignée?|loin|lointaine?) = farther
plus (?:sombre|foncée?) = darker
plus claire? = lighter
(?:(?:à peu près|presque|quasiment) )?(?:identiques?|pareil(?:le)?s?|les mêmes) = about the same
semblables|la même couleur = about the same
(closer|farther|darker|lighter) que = \1 than
(?:à l')?arrière-plan = background
premier plan = foreground
derrière = behind
devant = in front of
il n'y a (?:pas|aucune?)(?: d[e'])?|il n'y a = there are no
il y a|on voit = there are
on ne voit (?:pas|aucune?)(?: d[e'])? = there are no
je vois = i see
je compte = i count
aucune? (?:des|d'entre)|aucune?\W*\Z = none
aucune? = no
au total|en tout = in total
en regardant (?:mieux|de plus près|encore|à nouveau) = looking again
attendez|attends = wait
je (?:choisis|choisirais|prends) = i choose
par conséquent|ainsi|donc = therefore
bien que|même si|quoique = although
tandis que|alors que = while
ce n'est pas = it is not
n'est pas|ne (?:semble|paraît) pas = is not
ne sont pas = are not
c'est = it is
et non = , not
pas = not
mais = but
ni = nor
car|parce que|puisque = because
et = and
ou = or
réponse = answer
bonne|exacte = correct
correspond au? = corresponds to
(?:est|se trouve|paraît|semble|paraisse) = is
sont|se trouvent|semblent = are
ont = have
point = point
(?:de la|à la) caméra|de l'appareil(?: photo)? = to the camera
première image = first image
deuxième image|seconde image = second image
troisième image = third image
quatrième image = fourth image
plus probablement = most likely
réelle?|authentique = real
artificielles?|générée?s? = generated
deux = two
trois = three
quatre = four
cinq = five
sept = seven
huit = eight
neuf = nine
dix = ten
onze = eleven
douze = twelve
une? = one
qui = that
l[ae]s? = the
"""
_SPANISH = r"""
(?:el )?mismo (?:color|tono) = the same color
diferencia = difference
solo por|sólo por = only because of
solo|sólo = only
al principio|a primera vista = at first
correcto|exacto = correct
(?:eso )?no es (?:cierto|verdad|correcto|así) = that is not correct
(?:eso )?es (?:cierto|verdad|correcto|así) = that is correct
más (?:cerca|cercan[oa]|próxim[oa]) = closer
más (?:lejos|lejan[oa]|alejad[oa]) = farther
más (?:oscur[oa]) = darker
más clar[oa] = lighter
(?:aproximadamente |más o menos |casi )?(?:iguales|igual|lo mismo|los mismos|las mismas|el mismo color) = about the same
(closer|farther|darker|lighter) que = \1 than
(?:al|en el) fondo = background
primer plano = foreground
detrás de = behind
delante de = in front of
no hay|no se ven?(?: ningún)? = there are no
hay|se ven = there are
veo = i see
cuento = i count
ningun[oa]\W*\Z = none
ningún|ninguna = no
en total = in total
mirando (?:otra vez|de nuevo|mejor)|al mirar de nuevo = looking again
espera = wait
(?:yo )?(?:elegiría|elijo|escojo) = i choose
por (?:lo )?tanto|por eso|así que|en consecuencia = therefore
aunque = although
mientras que = while
no es = it is not
no está|no parece = is not
no son|no están = are not
(?<=, )no(?= \w+\W*\Z) = not
no(?= [A-H]\b| el | la ) = not
sino|pero = but
ni = nor
porque|ya que = because
y = and
o = or
respuesta = answer
opción = option
correcta = correct
corresponde al? = corresponds to
(?:es|está|parece) = is
son|están|parecen = are
tienen = have
punto = point
(?:de|a) la cámara = to the camera
primera imagen = first image
segunda imagen = second image
tercera imagen = third image
cuarta imagen = fourth image
probablemente = most likely
real|auténtica = real
artificiales|generadas? = generated
cero = zero
dos = two
tres = three
cuatro = four
cinco = five
seis = six
siete = seven
ocho = eight
nueve = nine
diez = ten
once = eleven
doce = twelve
un[oa]? = one
que = that
l[ao]s?|el = the
"""
_NUMBER = r"(?:\d+|[一二三四五六七八九十两]+)"
_PLACE = r"([A-H])[点處处]?(?:的[^,.比]{1,6}?)?"
_CHINESE = rf"""
区别|差别|差异 = difference
只是|仅仅 = only
乍一看|起初 = at first
但?实际上|其实 = but
^\W*(?:不是|不对|不|没有|否)(?=\W|$)|(?<=")(?:不是|否)(?=")|(?:不是|否)(?=\W*$) = no
^\W*(?:是的?|对的?|没错)(?=\W|$)|(?<=")(?:是的?|对)(?=")|是的(?=\W|$) = yes
{_PLACE}并?(不?)比{_PLACE}[更要]?(近|远|暗|深|亮|浅|明) = \1 is \2 \4 than \3.
([A-H])[点处]?在([A-H])[点处]?的?后[面方]? = \1 is behind \2
([A-H])[点处]?在([A-H])[点处]?的?前[面方]? = \1 is in front of \2
(?:与|和|跟)([A-H])点?相比 = compared to \1
离(?:相机|镜头|摄像机)最近 = closest to the camera
离(?:相机|镜头|摄像机)更?近|靠近(?:相机|镜头|摄像机) = closer to the camera
附近 = nearby
光线[使让] = lighting makes
背景 = background
前景 = foreground
更近|较近|最近|近(?= than) = closer
更远|较远|最远|远(?= than) = farther
(?:更|较|稍)(?:暗|深|黑)|[暗深](?= than) = darker
(?:更|较|稍)(?:亮|浅|明亮|淡)|[亮浅明](?= than) = lighter
看起来|似乎|显得 = looks
(?:大致|大约|基本|差不多)?(?:相同|一样|同样)|差不多 = are about the same
选项|選択肢 = option
(?:我)?(?:选择|选) = i choose
等等|等一下 = wait
再(?:看|仔细看)一?(?:遍|次|看) = looking again
不是 = not
而是 = but it is
([A-H])(?= *(?:closer|farther|darker|lighter)) = \1 is
不(?= *(?:closer|farther|darker|lighter)) = not
(?:没有看到|看不到|没看到|没有) = there are no
(?:我)?看到 = there are
图中有|画面中有|有 = there are
一共 = in total
({_NUMBER})\s*[只个名位把辆朵张条棵头艘匹台座] = \1
虽然|尽管 = although
但是|但 = but
因为 = because
因此|所以|故|那么 = therefore
这是错误的|错误|错 = wrong
正确 = correct
答案|回答 = answer
不对应 = does not correspond
对应 = corresponds to
可能是真实的|真实的?|是真的 = real
生成 = generated
最 = most likely
在|处于|位于 = is in
是|为 = is
和|与 = and
表面 = surface
颜色 = color
([A-H])\s*(?:点|处) = point \1
点|处 = point
"""
_OWNER = r"([A-H])点?(?:の[^,.はが]{1,6}?)?"
_RATHER = "の?(?:方|ほう)が(?:カメラに)?"
_IS_MORE = "([近遠暗]い|明るい)"
_JAPANESE = rf"""
([A-H])点?の?(?:方|ほう)が([A-H])点?より[も]?(?:カメラに)?{_IS_MORE} = \1 is \3 than \2
違い[はが](?:あり|見られ|見え)ません|違い[はが]ない = there is no difference
影のせいで = only because of the shadow
最初は = at first
実際は = in fact
ゼロ = zero
いいえ = no
(?<![一-龯ァ-ヶ])はい(?!ま) = yes
([A-H])点?[はが]([A-H])点?より[も]?([近遠暗明]る?)く(?:は)?(?:あり|ない|なく)(?:ません)? = \1 is not \3い than \2
{_OWNER}[はが]{_OWNER}よりも?{_IS_MORE} = \1 is \3 than \2
([A-H])点?[はが]([A-H])点?の(?:後ろ|奥|背後) = \1 is behind \2
([A-H])点?[はが]([A-H])点?の(?:前|手前) = \1 is in front of \2
([^,.はが]{{1,15}})でもなく[, ]* = not \1 but
でも(?=[^,.]{{0,15}} but) = nor
([A-H])点?(?:よりも?|と比べて|に比べて|と比較して)[, ]*([A-H])点?{_RATHER}{_IS_MORE} = \2 is \3 than \1
の?近くの? = nearby
カメラに(?:最も|一番)近い(?:のは)? = closest to the camera is
カメラに近い = closer to the camera
暗く見え = looks darker
明るく見え = looks lighter
近く見え = looks closer
カメラから遠い|遠い = farther
近い|手前|前景 = closer
背景|奥 = background
(?:より)?暗い|暗く|濃い = darker
(?:より)?明るい?|明るく = lighter
(?:ほぼ|だいたい|大体)?同じ = are about the same
光の(?:せいで|ため) = lighting makes
見え(?!ません) = look
待って(?:ください)? = wait
もう一度(?:見ると|よく見ると)|よく見ると = looking again
([^\s,.はが]{{1,15}})(?:では|じゃ)なく[, ]* = not \1 but
([^\s,.はが]{{1,15}})(?:では|じゃ)(?:ありません|ない) = not \1
違います|間違い(?:です)? = wrong
そうです|正しい(?:です)? = correct
([^\s,.はが]{{1,15}})を(?:選び|選択し)ます = i choose \1
選択肢 = option
([^\s,.]{{1,15}})[はが](?:あり|い|見え|見当たり)ません = there are no \1
([^\s,.はがと]{{1,15}})[はが](?:全部で|合計)({_NUMBER})\s*[匹個羽人脚つ本台枚頭冊] = there are \2 \1 in total
([^\s,.はがと]{{1,15}})[はが]({_NUMBER})\s*[匹個羽人脚つ本台枚頭冊] = there are \2 \1.
({_NUMBER})\s*[匹個羽人脚つ本台枚頭冊]の? = \1
[一1][番枚]目の(?:画像|写真) = the first image
[二2][番枚]目の(?:画像|写真) = the second image
[三3][番枚]目の(?:画像|写真) = the third image
[四4][番枚]目の(?:画像|写真) = the fourth image
したがって|従って|よって|だから|ゆえに|ので = therefore
最も = most likely
本物 = real
人工|生成 = generated
正解|答え = answer
対応しません = does not correspond
対応 = corresponds to
の?(?:方|ほう)が = is
の色 = color
の表面 = surface
(?<=[A-H])と(?=[A-H]) = and
([A-H])点?の(?!方|ほう)|([A-H])点 = point \1\2
[はが](?!い) = is
です(?!が) = .
"""
_TABLES = {"de": _GERMAN, "fr": _FRENCH, "es": _SPANISH, "zh": _CHINESE, "ja": _JAPANESE}
_MARKERS = {
    "de": "auf dem den im mit von man hier zwei drei vier fünf sechs sieben neun zehn nur ist sind nicht kein keine "
    "keinen keiner und näher dunkler heller punkt bild antwort daher somit sondern gibt ich das nein weiter gleich "
    "stimmt insgesamt ja der folglich richtig falsch wahr wirkt liegt ungefähr",
    "fr": "sur dans du ce cette on cinq quatre huit zéro exact est sont pas mais donc le la les une des il je c'est "
    "oui non réponse proche aucun aucune pareil près choisis vrai n'est n'y deux trois par en au",
    "es": "del con se lo al cuento una cuatro cinco seis siete ocho nueve diez cero correcto es está son están hay el "
    "la más pero sino sí opción respuesta aunque porque punto veo ninguno ningún ninguna por aproximadamente igual "
    "elijo elegiría los las en dos tres",
}
"""Words that tell a language; none of them makes up an English reply."""
_LANGUAGES = {language: frozenset(words.split()) for language, words in _MARKERS.items()}
_ENGLISH = re.compile(r"\b(?:the|is|are|of|and|to|this|that|than|it|with)\b", re.I)
_ASIAN = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_KANA = re.compile("[\u3040-\u30ff]")


def in_english(text: str, choices: tuple[str, ...] = ()) -> tuple[str, tuple[str, ...]]:
    """A cleaned reply and the texts of choices, with the telling words of the reply's language put into English.

    A reply with common words of English in it counts as English, and all stays as it is.
    """
    language = _language_of(text)
    if not language:
        return text, choices
    return _gloss(text, language), tuple(_gloss(choice, language) for choice in choices)


def _language_of(text: str) -> str:
    if _ENGLISH.search(text):
        return ""
    if _ASIAN.search(text):
        return "ja" if _KANA.search(text) else "zh"
    words = re.findall(r"[\w']+", text.casefold())
    counts = {language: sum(word in telling for word in words) for language, telling in _LANGUAGES.items()}
    language = max(counts, key=lambda name: counts[name])
    return language if counts[language] else ""


def _gloss(text: str, language: str) -> str:
    for pattern, english in _entries(language):
        text = pattern.sub(english, text)
    return re.sub(r" +", " ", text).strip()


@lru_cache
def _entries(language: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """The table's patterns, of whole words where words have spaces between them, each with its English."""
    spaced = language not in ("zh", "ja")
    lines = [line.rpartition(" = ") for line in _TABLES[language].strip().splitlines()]
    return tuple(
        (re.compile(rf"(?<!\w)(?:{source})(?!\w)" if spaced else source, re.I), english if spaced else f" {english} ")
        for source, _, english in lines
    )
