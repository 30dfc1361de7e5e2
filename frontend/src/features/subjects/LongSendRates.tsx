import { useMemo } from "react";
import { SendRates } from "@/features/subjects/SendRates";
import type { Series } from "@/live/series";
import type { Range } from "@/shared/ranges/range";
import { RangeNote } from "@/shared/ranges/RangeNote";
import { useRangeHistory } from "@/shared/ranges/useRangeHistory";
import { QueryProblem } from "@/ui/page/loaded";

/** What was sent to a subject in more than the last hour; `hour` is that, continued live. */
export function LongSendRates({ subject, range, hour }: { subject: string; range: Range; hour: Series }) {
  const of = useMemo(() => ({ subject }), [subject]);
  const { series, query, data, border } = useRangeHistory(of, range, hour);
  const note = (
    <>
      <QueryProblem of={query} />
      <RangeNote data={data} lines={{}} />
    </>
  );
  return <SendRates subject={subject} {...series} isPending={query.isPending} border={border} isWhole note={note} />;
}
