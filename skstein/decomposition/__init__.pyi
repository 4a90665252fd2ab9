from .lda import LatentDirichletAllocation as LatentDirichletAllocation
from .topics import TopicPosterior as TopicPosterior
