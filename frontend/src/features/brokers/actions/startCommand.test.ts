import { expect, test } from "vitest";
import { firstNode } from "@/features/brokers/actions/startCommand";

test("a broker group's first node", () => {
  expect(firstNode("broker", "g3", "meta1.internal:8080,meta2.internal:8080")).toBe(
    [
      "QMQ_NODE_TOKEN_FILE=/etc/qmq/node_token python -m broker_node --broker-group g3 --node-id g3-a",
      "--data-dir /var/lib/qmq/g3-a --meta meta1.internal:8080,meta2.internal:8080",
      "--host ADDRESS --admin-host ADDRESS --sync-port 20882",
    ].join(" \\\n  "),
  );
});

test("a delay group's, with a name that a shell would read otherwise", () => {
  const command = firstNode("delay", "it's;d1", "meta.internal:8080");
  expect(command).toContain("-m delay_node ");
  expect(command).toContain(`--broker-group 'it'\\''s;d1' `);
});
