"""Masking rules of a subject: which values of its messages people do not see, and what they see instead.

A rule names properties (`*` stands for any characters) and paths into the body as JSON (`customer.email`, `$.items[*].price`).
Rules apply in their order, each to the result of those before it. The protocol's own properties are never masked. A body that
can't be masked by path, because it is not JSON, too large or nested too deeply, is hidden as a whole. Bodies of a subject with a
format of bodies (qmq.formats) are decoded first, so that rules and filters see what people see.
"""

from qmq.protocol.masking.masks import HIDDEN as HIDDEN
from qmq.protocol.masking.masks import NO_MASKS as NO_MASKS
from qmq.protocol.masking.masks import Decoding as Decoding
from qmq.protocol.masking.masks import Mark as Mark
from qmq.protocol.masking.masks import Masks as Masks
from qmq.protocol.masking.masks import Shown as Shown
