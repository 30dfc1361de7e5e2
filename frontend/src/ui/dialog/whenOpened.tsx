import { useMounted } from "@mantine/hooks";
import { lazy, Suspense, useState, type ComponentType, type ReactNode } from "react";
import { withTexts } from "@/i18n";

type Load<Props> = () => Promise<ComponentType<Props>>;

/**
 * A component in a chunk of its own, for what is drawn only while it is open, as most dialogs; `waiting` is shown until
 * it is loaded. `texts`: namespaces that the page does not load.
 */
export function whenDrawn<Props extends object>(
  load: Load<Props>,
  texts: readonly string[] = [],
): ComponentType<Props & { waiting?: ReactNode }> {
  // The type of what `lazy` returns keeps no type parameters.
  const Loaded = lazy(async () => ({ default: await withTexts(load, texts)() })) as unknown as ComponentType<Props>;
  return function Drawn({ waiting, ...props }: Props & { waiting?: ReactNode }) {
    return (
      <Suspense fallback={waiting}>
        <Loaded {...(props as unknown as Props)} />
      </Suspense>
    );
  };
}

/**
 * The same for what is always drawn and opens by its property: it is loaded when it opens for the first time. It is
 * mounted closed, and opens then: so the component library knows which element had the focus before.
 */
export function whenOpened<Props extends { opened: boolean }>(load: Load<Props>): ComponentType<Props> {
  const Drawn = whenDrawn<Props>(async () => {
    const Loaded = await load();
    return function Opening(props: Props) {
      const isMounted = useMounted();
      return <Loaded {...props} opened={props.opened && isMounted} />;
    };
  });
  return function Opened(props: Props) {
    const [wasOpened, setWasOpened] = useState(props.opened);
    if (props.opened && !wasOpened) setWasOpened(true);
    return wasOpened ? <Drawn {...props} /> : null;
  };
}
