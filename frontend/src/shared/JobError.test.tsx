import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { mount } from "@/test/mount";
import { JobError } from "@/shared/JobError";

test("a stack trace is folded below its first line, or below a sentence for what is known", async () => {
  const known = "Job aborted\n  at org.apache.spark.SparkException: Python worker failed to connect back.";
  await mount(() => (
    <>
      <JobError text={known} />
      <JobError text={"OutOfMemory\n  at Main"} />
      <JobError text="redis is away" />
    </>
  ));
  expect(screen.getByText(/^Spark's Python process did not start in time/)).toBeInTheDocument();
  expect(screen.getByText("OutOfMemory")).toBeInTheDocument();
  expect(screen.getAllByText("Details")).toHaveLength(2);
  expect(screen.getByText("redis is away")).toBeInTheDocument();
});
