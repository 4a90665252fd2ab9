from .history import HistoryDisplay as HistoryDisplay
from .ksd_path import KSDPathDisplay as KSDPathDisplay
from .posterior_interval import PosteriorIntervalDisplay as PosteriorIntervalDisplay
from .predictive_interval import PredictiveIntervalDisplay as PredictiveIntervalDisplay
from .uncertainty import UncertaintyDisplay as UncertaintyDisplay
