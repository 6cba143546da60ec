// What the page says of a key; '' where there is nothing to say.
export const UNKNOWN_KEY = 'The server does not know this key.';
export const UNSENDABLE_KEY =
  'This is no key: it has a blank or a character beyond ASCII, such as a long dash. Copy it once more.';

/** Whether a header can carry it. fetch throws for others, which would look as if the server were away. */
export const sendable = (key: string): boolean => /^[\x21-\x7e]*$/.test(key);
