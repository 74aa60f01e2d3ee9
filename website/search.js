// The search takes "-" before a word as NOT, so that no option would be found: send words without it.
const send = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  if (message && typeof message.data === "string")
    message = {...message, data: message.data.replace(/(^|\s)-+(?=\w)/g, "$1")};
  return send.call(this, message, ...rest);
};
