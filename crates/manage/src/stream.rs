// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bodies that are sent piece by piece: files, events, and texts that are held until their client has taken them.

use std::convert::Infallible;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use http_body_util::channel::{Channel, Sender};

use hyper::body::{Frame, SizeHint};

use crate::limits::Holding;
use crate::problem::{Kind, Problem};

/// Bytes that are passed on at a time, and those of a file that are in memory.
const CHUNK: usize = 64 << 10;

/// The end of a body that it is sent by.
pub(crate) type Sending = Sender<Bytes, std::io::Error>;

/// A body that is sent piece by piece; who sends waits until the client has taken enough.
pub(crate) fn channel() -> (Sending, Body) {
    let (sender, body) = Channel::new(1);
    (sender, Body::new(body))
}

/// The body of a text. The connection copies what it is to write, so it gets a piece at a time; the text counts as held until its end.
pub(crate) fn text(text: String, holding: Holding) -> Body {
    Body::new(Text { left: text.into(), _holding: holding })
}

struct Text {
    left: Bytes,
    _holding: Holding,
}

impl HttpBody for Text {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let size = CHUNK.min(self.left.len());
        Poll::Ready((size > 0).then(|| Ok(Frame::data(self.left.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

/// The body of a file, and its length.
pub(crate) async fn file(path: PathBuf) -> Result<(Body, u64), Problem> {
    let failed = || Problem::new(Kind::NotFound, "the file is not there any more");
    let opened = tokio::task::spawn_blocking(move || {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok::<_, std::io::Error>((file, length))
    });
    let (file, length) = opened.await.map_err(|_| failed())?.map_err(|_| failed())?;
    let (mut sender, body) = channel();
    let file = Arc::new(file);
    tokio::spawn(async move {
        let mut at = 0;
        while at < length {
            let (file, size) = (file.clone(), CHUNK.min((length - at) as usize));
            let read = tokio::task::spawn_blocking(move || {
                let mut bytes = vec![0; size];
                file.read_exact_at(&mut bytes, at).map(|()| bytes)
            });
            let Ok(read) = read.await else { return };
            match read {
                Ok(bytes) => {
                    at += bytes.len() as u64;
                    if sender.send_data(bytes.into()).await.is_err() {
                        return;
                    }
                }
                Err(why) => return sender.abort(why),
            }
        }
    });
    Ok((body, length))
}
