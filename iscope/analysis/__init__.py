"""From a ledger to a report. Nothing here sees a token."""
