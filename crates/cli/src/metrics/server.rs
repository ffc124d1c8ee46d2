//! Answers scrapes over HTTP: one request per connection, each on its own thread, limited in time and size.
//!
//! `tiny_http` has no time limit, and hyper would add a runtime. Prometheus needs one request, which `httparse` parses.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq as _;

use super::page::{Latest, OutputErrors};
use super::text::Format;

/// Maximum simultaneous connections; others wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 128;
const MOST_REQUEST: usize = 8 << 10;
const MOST_HEADERS: usize = 64;
/// Time limit for receiving a request, and for sending its response.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time for the client to close, so that the response to a request that was not fully read is not lost.
const LINGER: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Server {
    pub(super) latest: Arc<Latest>,
    pub(super) errors: Arc<OutputErrors>,
    pub(super) token: Option<String>,
}

impl Server {
    pub(super) fn start(self, listener: TcpListener) -> io::Result<SocketAddr> {
        let address = listener.local_addr()?;
        let server = Arc::new(self);
        thread::Builder::new().name("listen".to_owned()).spawn(move || {
            loop {
                // Out of file descriptors, threads or connections: retry when some are free again.
                if server.accept(&listener).is_err() || Arc::strong_count(&server) > MOST_CONNECTIONS {
                    thread::sleep(Duration::from_millis(5));
                }
            }
        })?;
        Ok(address)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) -> io::Result<()> {
        while Arc::strong_count(self) <= MOST_CONNECTIONS {
            let (stream, _) = listener.accept()?;
            let server = Arc::clone(self);
            let thread = thread::Builder::new().name("scrape".to_owned()).stack_size(256 << 10);
            // A client that disconnects is not an error of the server.
            thread.spawn(move || drop(server.serve(stream)))?;
        }
        Ok(())
    }

    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut stream = Limited { stream, until: Instant::now() + PATIENCE };
        let answer = match read_request(&mut stream) {
            Ok(request) => self.answer(&request),
            Err(error) if error.kind() == ErrorKind::InvalidData => Answer::Text(400, "not a request\n"),
            Err(error) => return Err(error),
        };
        if matches!(answer, Answer::Text(400.., _)) {
            OutputErrors::count(&self.errors.refused);
        }
        stream.until = Instant::now() + PATIENCE;
        answer.write(&mut stream)?;
        stream.stream.shutdown(Shutdown::Write)?;
        stream.until = Instant::now() + LINGER;
        io::copy(&mut stream.take(1 << 20), &mut io::sink())?;
        Ok(())
    }

    fn answer(&self, request: &Request) -> Answer {
        let is_allowed = |token: &String| {
            request.bearer.as_ref().is_some_and(|shown| shown.as_bytes().ct_eq(token.as_bytes()).into())
        };
        if !self.token.as_ref().is_none_or(is_allowed) {
            return Answer::Text(401, "show the token: Authorization: Bearer TOKEN\n");
        }
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/metrics") => match self.latest.lock().clone() {
                Some(page) => Answer::Page(page, request.format),
                None => Answer::Text(503, "no values yet\n"),
            },
            ("GET", "/") => Answer::Text(200, "nccl-otf2: /metrics has the metrics\n"),
            ("GET", _) => Answer::Text(404, "only /metrics is here\n"),
            _ => Answer::Text(405, "only GET\n"),
        }
    }
}

struct Limited {
    stream: TcpStream,
    until: Instant,
}

impl Limited {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        left.map(Some).ok_or_else(|| ErrorKind::TimedOut.into())
    }
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

struct Request {
    method: String,
    path: String,
    format: Format,
    bearer: Option<String>,
}

/// Reads a request; an invalid one gives `InvalidData`.
fn read_request(stream: &mut impl Read) -> io::Result<Request> {
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 1024];
        let read = stream.read(&mut part)?;
        bytes.extend_from_slice(part.get(..read).unwrap_or_default());
        if let Some(request) = parse(&bytes).map_err(|_| ErrorKind::InvalidData)? {
            return Ok(request);
        }
        if read == 0 || bytes.len() > MOST_REQUEST {
            return Err(ErrorKind::InvalidData.into());
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Option<Request>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    if request.parse(bytes)?.is_partial() {
        return Ok(None);
    }
    let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
    let method = request.method.unwrap_or_default().to_owned();
    let header = |name: &str| {
        let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok())
    };
    let is_open = header("Accept").unwrap_or_default().contains("application/openmetrics-text");
    let format = if is_open { Format::OpenMetrics } else { Format::Prometheus };
    let bearer = header("Authorization").and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim().to_owned())
    });
    Ok(Some(Request { method, path, format, bearer }))
}

enum Answer {
    Page(Arc<super::page::Page>, Format),
    Text(u16, &'static str),
}

impl Answer {
    fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (status, content_type, body) = match self {
            Self::Page(page, format) => (200, format.content_type(), page.text(*format)),
            Self::Text(status, text) => (*status, "text/plain; charset=utf-8", *text),
        };
        let reason = match status {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized\r\nWWW-Authenticate: Bearer",
            404 => "Not Found",
            405 => "Method Not Allowed\r\nAllow: GET",
            _ => "Service Unavailable",
        };
        let head = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        to.write_all(head.as_bytes())?;
        to.write_all(body.as_bytes())
    }
}
