"""deployment.yaml: the record of a release for the registry of deployments of differential privacy.

The registry is https://registry.opendp.org; its schema is that of
https://github.com/opendp/deployments-registry-data. The custodian's words come from the file of
`--deployment`, everything else from release.json.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from primo_scale.errors import InputError
from primo_scale.storage import files
from primo_scale.verify.document import Deployment, Document

_WORDS = "curator, purpose, region and other_releases"


def read_deployment(path: Path) -> Deployment:
    """Return the custodian's words from a YAML file.

    Raises
    ------
    InputError
        If the file is not a mapping with exactly these texts of one line each.
    """
    try:
        return files.converted(yaml.safe_load(path.read_text(encoding="utf-8")), Deployment)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise InputError(
            f"is no description of a deployment: {' '.join(str(error).split())}",
            where=path,
            remedy=f"Give a YAML file with {_WORDS}, a text of one line each",
        ) from error


def registry_record(document: Document) -> str:
    """Return the record of a private release whose custodian gave the words, as YAML."""
    words, guarantee, cohort = document["deployment"], document["guarantee"], document["cohort"]
    mechanism, ledger = document["mechanism"], document["ledger"]
    title = f"Polygenic-score weights of {cohort['n_phenotypes']} phenotypes, {words['curator']}"
    queries = ", ".join(query["name"].replace("_", " ") for query in mechanism["queries"])
    record: dict[str, Any] = {
        "url_slug": re.sub("[^a-z0-9]+", "-", f"{title} {document['created']}".lower()).strip("-"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": title,
                "data_curators": [words["curator"]],
                "intended_use": words["purpose"],
                "data_product_type": "Machine learning model",
                "data_product_region": words["region"],
                "description": f"Weights of linear polygenic scores over {cohort['n_variants']} "
                f"variants. {document['stamp']}.",
                "publication_date": document["created"],
                "data_product_sector": "Healthcare",
            },
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": "Genotypes, covariates and phenotypes of the people of a cohort, "
                "one row for each person",
                "unprotected_quantities": "; ".join(document["public_by_assumption"]),
            },
            "privacy_loss": {
                "privacy_unit": guarantee["unit"],
                "privacy_unit_details": f"{guarantee['adjacency']} neighbours, "
                f"{guarantee['privacy']} privacy",
                "privacy_parameters": {
                    "epsilon": guarantee["epsilon"],
                    "delta": f"{guarantee['delta']:g}",
                },
                "privacy_parameters_details": f"Gaussian differential privacy with mu = "
                f"{guarantee['mu']:.6g}",
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": "A trusted custodian holds the data and adds the noise; anybody may read "
                "the release",
                "release_type": "Many releases",
                "release_type_details": "The releases of this cohort under this ledger together "
                f"have epsilon {ledger['epsilon_after']:.6g} of a budget of "
                f"{ledger['budget_epsilon']:.6g}, which does not reset. {words['other_releases']}",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "Weights are solved, rounded and checked from the noisy "
                "statistics alone",
                "composition": "Joint Gaussian mechanism; squares of mu add up over statistics and "
                "releases, and are converted by the analytic Gaussian profile",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "Every bound, frequency and LD panel is "
                "a public input; nothing is tuned on the cohort without noise",
                "mechanisms": f"Gaussian noise on {queries}. {mechanism['sampler']}. Computed by "
                f"{document['software']}",
            },
            "administrative": {"registry_authors": [words["curator"]]},
        },
    }
    return str(yaml.safe_dump(record, sort_keys=False, allow_unicode=True, width=100))
