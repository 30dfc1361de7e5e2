import { screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { setLanguage } from "@/i18n";
import { mount } from "@/test/mount";
import { useJobError, useJobResult } from "@/shared/jobResult";

type Job = Parameters<ReturnType<typeof useJobResult>>[0];

async function shown(job: Job) {
  function Page() {
    return <p data-testid="result">{useJobResult()(job)}</p>;
  }
  await mount(Page);
  return screen.getByTestId("result");
}

afterEach(() => setLanguage("en"));

const MOVES: Job = {
  result: "stored",
  result_parts: [
    { code: "moves.moving", values: { count: 1 } },
    { code: "moves.steps", values: { count: 1200 } },
    { code: "waiting.lag", values: { subject: "orders", broker_group: "g1", group: "billing", count: 3 } },
    { code: "waiting.no_node", values: { broker_group: "g2" } },
  ],
};

test("the result of a background job is in the language of the viewer", async () => {
  const result = await shown(MOVES);
  expect(result).toHaveTextContent(
    "1 subject moving, 1,200 steps completed;" +
      " waiting for: orders on g1: group billing has 3 messages pending; g2 has no node",
  );
  await setLanguage("zh");
  await waitFor(() =>
    expect(result).toHaveTextContent(
      "1 个主题正在迁移，完成 1,200 步；等待：orders 在 g1：消费组 billing 还有 3 条消息；g2 没有节点",
    ),
  );
});

test.each([
  ["without parts", []],
  [
    "with a part that this version does not know",
    [
      { code: "moves.none", values: {} },
      { code: "moves.unheard_of", values: {} },
    ],
  ],
])("the stored text is shown %s", async (_, parts) => {
  expect(await shown({ result: "4 jobs", result_parts: parts })).toHaveTextContent(/^4 jobs$/);
});

test.each([
  [
    "in the language of the viewer",
    "analytics.out_of_memory",
    "超过 1,770 秒，已停止：Spark 内存不足：请增大 QMQ_ANALYTICS_MEMORY。",
  ],
  [
    "as it is stored, with a part that this version does not know",
    "analytics.unheard_of",
    "stopped after 1770 s: it melts",
  ],
])("why a background job failed is shown %s", async (_, code, text) => {
  const parts = [
    { code: "analytics.too_long", values: { seconds: 1770 } },
    { code, values: {} },
  ];
  await mount(() => (
    <p data-testid="error">{useJobError()({ error: "stopped after 1770 s: it melts", error_parts: parts })}</p>
  ));
  await setLanguage("zh");
  await waitFor(() => expect(screen.getByTestId("error")).toHaveTextContent(text));
});

test("times are in the viewer's zone", async () => {
  const parts = [{ code: "analytics.until", values: { at_ms: Date.UTC(2026, 10, 24, 12) } }];
  expect(await shown({ result: "", result_parts: parts })).toHaveTextContent(/^up to 2026-11-2\d \d\d:00:00$/);
});
