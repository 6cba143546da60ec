import { useEffect, useState } from 'preact/hooks';

/** A value that tells its listeners when it changes. */
export class Store<T> {
  private listeners = new Set<() => void>();
  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set(next: T): void {
    if (Object.is(next, this.current)) return;
    this.current = next;
    for (const listener of [...this.listeners]) listener();
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** The store's value; the component is drawn again when it changes. */
export function useStore<T>(store: Store<T>): T {
  const [, draw] = useState(0);
  useEffect(() => {
    const seen = store.value;
    const stop = store.listen(() => draw((n) => n + 1));
    // It may have changed between drawing and listening.
    if (!Object.is(seen, store.value)) draw((n) => n + 1);
    return stop;
  }, [store]);
  return store.value;
}
