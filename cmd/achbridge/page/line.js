// The line to the daemon: server-sent events, which begin anew whenever it was cut.

const quiet = 5000;  // ms without a word after which the line is taken for cut
const again = 2000;  // ms until the next try

// connect hands every event to one of the functions of take, with whether it is the
// first on this line, and tells in sign how the line is. A page that nobody looks at
// asks for nothing.
export function connect(sign, take) {
  let source = null, heard = performance.now(), first = {}, tried = 0;

  function open() {
    source?.close();
    first = {};
    tried = performance.now();
    source = new EventSource("events");
    for (const [name, f] of Object.entries(take)) {
      source.addEventListener(name, (e) => {
        heard = performance.now();
        const afresh = !first[name];
        first[name] = true;
        f(JSON.parse(e.data), afresh);
        show();
      });
    }
    source.addEventListener("open", () => (first = {}));
  }

  function show() {
    const silent = performance.now() - heard, cut = silent > quiet;
    document.body.classList.toggle("cut", cut);
    sign.className = cut ? "refused" : first.status ? "live" : "waiting";
    sign.textContent = cut ? `no word from the daemon for ${Math.floor(silent / 1000)} s` : first.status ? "live" : "connecting";
  }

  setInterval(() => {
    if (document.hidden) return;
    const now = performance.now();
    if (now - heard > quiet && now - tried > again) open();
    show();
  }, 500);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return source.close();
    heard = performance.now();
    open();
  });
  open();
}
