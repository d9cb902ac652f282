from .similarity import (
    DenseSimilarity as DenseSimilarity,
    GlobalSimilarity as GlobalSimilarity,
    GramSimilarity as GramSimilarity,
)
