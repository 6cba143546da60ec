import type { RefObject } from 'preact';
import { useEffect, useState } from 'preact/hooks';

/** The inner width of an element in CSS pixels, and the device's pixels for each of them. 0 before it is laid out. */
export function useSize(box: RefObject<HTMLElement | null>): { width: number; ratio: number } {
  const [size, setSize] = useState({ width: 0, ratio: 1 });
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const look = () => {
      const next = { width: element.clientWidth, ratio: devicePixelRatio || 1 };
      setSize((old) => (old.width === next.width && old.ratio === next.ratio ? old : next));
    };
    look();
    const observer = new ResizeObserver(look);
    observer.observe(element);
    addEventListener('resize', look);
    return () => {
      observer.disconnect();
      removeEventListener('resize', look);
    };
  }, []);
  return size;
}

const dark = matchMedia('(prefers-color-scheme: dark)');

/** The page's colours, for what is drawn on a canvas; read anew when the scheme changes. */
export function useTheme(box: RefObject<HTMLElement | null>): { text: string; muted: string; empty: string; accent: string } {
  const [theme, setTheme] = useState({ text: '#000', muted: '#666', empty: '#ddd', accent: '#06c' });
  useEffect(() => {
    const look = () => {
      if (!box.current) return;
      const style = getComputedStyle(box.current);
      const of = (name: string) => style.getPropertyValue(name).trim();
      setTheme({ text: of('--text'), muted: of('--muted'), empty: of('--empty'), accent: of('--accent') });
    };
    look();
    dark.addEventListener('change', look);
    return () => dark.removeEventListener('change', look);
  }, []);
  return theme;
}
