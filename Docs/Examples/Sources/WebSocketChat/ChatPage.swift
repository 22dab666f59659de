import ByteText

/// The page of the chat, for browsers.
enum ChatPage {
  /// Returns the answer to a request that does not ask for WebSocket.
  static func answer(to request: UpgradeRequest) -> String {
    let isPage = request.method.equals("GET") && request.path.equals("/")
    return isPage ? answer("200 OK", page) : answer("404 Not Found", "404 Not Found\n")
  }

  /// Returns an answer, after which the connection ends.
  static func answer(_ status: String, _ text: String = "") -> String {
    """
    HTTP/1.1 \(status)\r
    Content-Type: text/html; charset=utf-8\r
    Content-Length: \(text.utf8.count)\r
    Connection: close\r
    \r
    \(text)
    """
  }

  /// Returns the name of a member, which is the last part of the path: `/chat/Ada`. Other characters than letters and digits are removed.
  static func name(in path: ByteText) -> String {
    let last = path.parts(at: "/", omitsEmpty: true).last?.bytes ?? []
    let name = last.filter { 48...57 ~= $0 || 65...90 ~= $0 || 97...122 ~= $0 }.prefix(20)
    return name.isEmpty ? "guest" : String(decoding: name, as: UTF8.self)
  }

  private static let page = """
    <!DOCTYPE html>
    <html lang="en"><head><meta charset="utf-8"><title>Chat</title></head>
    <body><h1>Chat</h1><pre id="lines"></pre><form><input id="line" autofocus> <button>Say</button></form>
    <script>
      const socket = new WebSocket("ws://" + location.host + "/chat/" + (prompt("Your name?") || ""))
      socket.onmessage = event => { document.getElementById("lines").textContent += event.data + "\\n" }
      document.forms[0].onsubmit = event => {
        event.preventDefault()
        const input = document.getElementById("line")
        socket.send(input.value)
        input.value = ""
      }
    </script></body></html>

    """
}
