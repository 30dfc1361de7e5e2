/** A Q: a queue as a ring, and the message that leaves it. */
export function Logo({ size }: { size: number }) {
  return (
    <svg className="logo" width={size} height={size} viewBox="0 0 32 32" aria-hidden>
      <path d="M15.98 23.29A9.5 9.5 0 1 1 23.29 15.98" />
      <circle cx="25" cy="25" r="4" />
    </svg>
  );
}
