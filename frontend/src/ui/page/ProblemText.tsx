import { Text } from "@mantine/core";
import { useProblemWords } from "@/ui/page/problemWords";

/** What is wrong and what to do; below it what the API says, where that is in another language. */
export function ProblemText({ error, ...style }: { error: unknown; c?: "red"; className?: string }) {
  const { text, detail } = useProblemWords()(error);
  return (
    <>
      <Text size="sm" {...style}>
        {text}
      </Text>
      {detail && (
        <Text size="xs" c="dimmed" lang="en" className="break">
          {detail}
        </Text>
      )}
    </>
  );
}
