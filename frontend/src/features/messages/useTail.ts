import { useEffect, useReducer, useRef, useState } from "react";
import { NO_TAIL, tailAfter, type TailView } from "@/features/messages/tail";
import { Connection, socketUrl, type LiveStatus } from "@/live/feed";

export interface Tail {
  status: LiveStatus;
  view: TailView;
  pause: () => void;
  resume: () => void;
  clear: () => void;
}

/** The tail of a subject while the component is shown; at most `keep` rows. */
export function useTail(subject: string, keep: number): Tail {
  const [status, setStatus] = useState<LiveStatus>({ kind: "connecting" });
  const [view, take] = useReducer(tailAfter, NO_TAIL);
  const latestKeep = useRef(keep);
  useEffect(() => {
    latestKeep.current = keep;
  });
  useEffect(() => {
    const connection = new Connection(
      socketUrl(`/ws/tail/?${new URLSearchParams({ subject }).toString()}`),
      (message) => take({ kind: "heard", message, keep: latestKeep.current }),
      setStatus,
    );
    return () => connection.close();
  }, [subject]);
  return {
    status,
    view,
    pause: () => take({ kind: "pause" }),
    resume: () => take({ kind: "resume", keep }),
    clear: () => take({ kind: "clear" }),
  };
}
