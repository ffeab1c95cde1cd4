"""Looks for known vulnerabilities in what is installed: ``make audit``.

Fails when there is one. Where neither pip-audit nor a list of vulnerabilities can be reached, it says so and
lets everything else go on.
"""

from __future__ import annotations

import json
import subprocess
import sys


def judged(output: str, said: str) -> tuple[int, str]:
    """Return exit status and sentence for what pip-audit printed, and what it said beside it."""
    try:
        listed = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (said.strip().splitlines() or ["nothing was said"])[-1]
        return 0, f"audit skipped: no list of vulnerabilities can be reached ({last[:200]})"
    wrong = [(one["name"], each["id"]) for one in listed for each in one.get("vulns", ())]
    unseen = sum("skip_reason" in one for one in listed)
    if wrong:
        return 1, "\n".join(f"vulnerable: {name} ({number})" for name, number in wrong)
    if unseen == len(listed):
        return 0, f"audit skipped: none of {unseen} packages could be looked up in a list of vulnerabilities"
    return 0, f"audited {len(listed) - unseen} packages: no known vulnerability ({unseen} not on any index)"


def main() -> int:
    """Run pip-audit over the packages of this interpreter."""
    command = [sys.executable, "-m", "pip_audit", "--progress-spinner", "off", "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:
        status, sentence = judged("", "it took longer than ten minutes")
    else:
        status, sentence = judged(done.stdout, done.stderr)
    print(sentence)
    return status


if __name__ == "__main__":
    sys.exit(main())
