// Puts the script and the styles of the build into the page, so that one file is all there is to serve.
import { createHash } from 'node:crypto';
import type { Plugin } from 'vite';
import { sourcesHash } from './sources';

const sha256 = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/**
 * The policy of the page: its own script and styles by their hashes, and requests to the host that it came from. So
 * even text that found a way into the markup could neither run nor load anything.
 */
function contentPolicy(script: string, style: string): string {
  return [
    "default-src 'none'", `script-src ${sha256(script)}`, `style-src ${sha256(style)}`, "connect-src 'self'",
    'img-src data:', "base-uri 'none'", "form-action 'none'",
  ].join('; ');
}

export function oneFile(root: string): Plugin {
  return {
    name: 'one-file',
    enforce: 'post',
    generateBundle(_options, bundle) {
      let script = '';
      let style = '';
      const page = bundle['index.html'];
      if (page?.type !== 'asset') this.error('the build has no index.html');
      for (const [name, file] of Object.entries(bundle)) {
        if (file.type === 'chunk') script += file.code;
        else if (name.endsWith('.css')) style += file.source;
        if (file !== page) delete bundle[name];
      }
      script = script.trim().replaceAll('</script', '<\\/script');
      style = style.trim();
      const head = String(page.source)
        .replace(/\s*<script\b[^>]*src=[^>]*><\/script>/, '')
        .replace(/\s*<link\b[^>]*rel="stylesheet"[^>]*>/, '');
      const metas =
        `<meta http-equiv="Content-Security-Policy" content="${contentPolicy(script, style)}">\n` +
        `  <meta name="soli-sources" content="${sourcesHash(root)}">`;
      // A function as the replacement: "$&" in the script must stay what it is.
      page.source = head
        .replace('<!--metas-->', () => metas)
        .replace('<!--style-->', () => `<style>${style}</style>`)
        .replace('<!--script-->', () => `<script type="module">${script}</script>`);
    },
  };
}
