from .balanced import balanced_thin as balanced_thin
from .budgets import PowerBudget as PowerBudget
from .chains import stack_draws as stack_draws
from .online import OnlineKSDThinner as OnlineKSDThinner
from .stein_kernel_thinning import stein_kernel_thin as stein_kernel_thin
from .subsets import backward_thin as backward_thin
from .subsets import stein_thin as stein_thin
from .subsets import stein_weights as stein_weights
