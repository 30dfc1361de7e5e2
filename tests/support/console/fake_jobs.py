"""In place of the analytics jobs: says and does what the environment tells it to."""

import os
import signal
import sys
import time


def main() -> int:
    """FAKE_JOBS: ok, report, fail, stack (of Java, after FAKE_JOBS_CAUSE), unavailable, busy, wait, or hang (ignores SIGTERM);
    FAKE_JOBS_PID: a file for the process ID; FAKE_JOBS_REPORT: the last line of `report`."""
    what = os.environ.get("FAKE_JOBS", "ok")
    if what == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    path = os.environ.get("FAKE_JOBS_PID")
    if path:
        with open(path, "w") as file:
            file.write(str(os.getpid()))
    print("lag: 12 rows", flush=True)
    print(" ".join(sys.argv[1:]), flush=True)
    if what == "report":
        print(os.environ["FAKE_JOBS_REPORT"], flush=True)
    if what in ("hang", "wait"):
        time.sleep(600)
    if what not in ("ok", "report"):
        print("WARN NativeCodeLoader: " + 60 * "no library ", file=sys.stderr)
        print("analytics: no luck", file=sys.stderr)
    if what == "stack":
        print("Caused by: org.apache.spark.SparkException: " + os.environ["FAKE_JOBS_CAUSE"], file=sys.stderr)
        print(
            *(f"\tat org.apache.spark.Part{n}.run(Part.scala:{n})" for n in range(9)),
            "\t... 9 more",
            sep="\n",
            file=sys.stderr,
        )
    return {"ok": 0, "report": 0, "fail": 1, "stack": 1, "unavailable": 3, "busy": 4}[what]


if __name__ == "__main__":
    sys.exit(main())
