// A page from a disk may not start a worker: run its script in a hidden frame (the name is known to the theme).
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const page = this.frame.contentDocument;
    page.open();
    page.write(`<script>postMessage = parent.postMessage.bind(parent)</script><script src="${url}"></script>`);
    page.close();
    addEventListener("message", (event) => {
      if (event.source === this.frame.contentWindow)
        this.dispatchEvent(new MessageEvent("message", {data: event.data}));
    });
    this.ready = new Promise((done) => (this.frame.onload = done));
  }
  postMessage(message) {
    this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data: message})));
  }
}
if (location.protocol === "file:") window.Worker = window.IFrameWorker = IFrameWorker;
