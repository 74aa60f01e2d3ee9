"""OpenDP's exact discrete Gaussian: the oracle that the product's sampler is compared with."""

import numpy as np

# Not opendp.prelude, which imports scikit-learn where it is installed and takes ten times longer.
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian
from opendp.metrics import l2_distance
from opendp.mod import enable_features


class OpenDPNoise:
    """Noise from the operating system's entropy, at about 25 us a draw."""

    def draw(self, label, count, scale):
        """Draw int64, shape (count,), of standard deviation `scale`; the label is not used."""
        enable_features("contrib")
        domain = vector_domain(atom_domain(T="i64"))
        draw = make_gaussian(domain, l2_distance(T=float), scale=scale)
        return np.array(draw([0] * count), dtype=np.int64)
