"""Privacy ledger: budgets of cohorts, charges for releases, and a durable record of both."""
