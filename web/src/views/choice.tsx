interface Props<T extends string> {
  label: string;
  value: T;
  options: { value: T; label: string }[];
  choose: (value: T) => void;
}

/** A labelled list to choose from, the browser's own: it works by keyboard and in narrow windows. */
export function Choice<T extends string>({ label, value, options, choose }: Props<T>) {
  return (
    <label class="choice">
      <span>{label}</span>
      <select value={value} onChange={(event) => choose(event.currentTarget.value as T)}>
        {options.map((option) => <option key={option.value} value={option.value}>{option.label}</option>)}
      </select>
    </label>
  );
}
