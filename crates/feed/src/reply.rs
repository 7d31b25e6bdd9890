// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers of the user plane.

use crate::audit::Answer;
use crate::bytes::Cursor;
use crate::{Error, VERSION};

/// The most bytes of an explanation.
const WHY_BYTES_MAX: usize = 512;

/// The answer to one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Answer to [`Update::Hello`](crate::Update::Hello).
    Welcome {
        /// The feed that the tables hold; 0 for none.
        feed: u64,
        /// The last batch of it that was applied.
        sequence: u64,
    },
    /// The batch of this number is in the tables.
    Applied {
        /// Its number.
        sequence: u64,
        /// Updates of it that were left out, such as routes to a link that the user plane does not have.
        refused: u32,
        /// Changes of this and earlier batches that the tables had no room for. The user plane tries them again.
        outstanding: u32,
        /// Why the first of those refused was.
        why: String,
    },
    /// So much is outstanding since the user plane has tried again.
    Outstanding {
        /// As of [`Applied`](Reply::Applied).
        count: u32,
        /// Why the first of these is.
        why: String,
    },
    /// The answer to [`Update::Audit`](crate::Update::Audit), in the place of [`Applied`](Reply::Applied).
    Audited {
        /// The number of the batch.
        sequence: u64,
        /// The answer.
        answer: Answer,
    },
    /// The user plane needs everything again, see [`Update::Begin`](crate::Update::Begin).
    Replay {
        /// Why.
        why: String,
    },
}

const WELCOME: u8 = 1;
const APPLIED: u8 = 2;
const REPLAY: u8 = 3;
const OUTSTANDING: u8 = 4;
const AUDITED: u8 = 5;

fn encode_text(text: &str, out: &mut Vec<u8>) {
    let mut end = text.len().min(WHY_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.extend((end as u16).to_le_bytes());
    out.extend(&text.as_bytes()[..end]);
}

fn decode_text(from: &mut Cursor<'_>) -> Result<String, Error> {
    let count = usize::from(from.u16()?);
    Ok(String::from_utf8_lossy(from.take(count)?).into_owned())
}

impl Reply {
    /// The answer as one message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = VERSION.to_le_bytes().to_vec();
        match self {
            Reply::Welcome { feed, sequence } => {
                out.push(WELCOME);
                out.extend(feed.to_le_bytes());
                out.extend(sequence.to_le_bytes());
            }
            Reply::Applied { sequence, refused, outstanding, why } => {
                out.push(APPLIED);
                out.extend(sequence.to_le_bytes());
                out.extend(refused.to_le_bytes());
                out.extend(outstanding.to_le_bytes());
                encode_text(why, &mut out);
            }
            Reply::Outstanding { count, why } => {
                out.push(OUTSTANDING);
                out.extend(count.to_le_bytes());
                encode_text(why, &mut out);
            }
            Reply::Audited { sequence, answer } => {
                out.push(AUDITED);
                out.extend(sequence.to_le_bytes());
                answer.encode(&mut out);
            }
            Reply::Replay { why } => {
                out.push(REPLAY);
                encode_text(why, &mut out);
            }
        }
        out
    }

    /// Reads a message.
    ///
    /// # Errors
    /// The bytes are no answer of this version.
    pub fn decode(message: &[u8]) -> Result<Reply, Error> {
        let mut from = Cursor::new(message);
        let theirs = from.u16()?;
        if theirs != VERSION {
            return Err(Error::Version { theirs });
        }
        Ok(match from.u8()? {
            WELCOME => Reply::Welcome { feed: from.u64()?, sequence: from.u64()? },
            APPLIED => Reply::Applied {
                sequence: from.u64()?,
                refused: from.u32()?,
                outstanding: from.u32()?,
                why: decode_text(&mut from)?,
            },
            AUDITED => Reply::Audited { sequence: from.u64()?, answer: Answer::decode(&mut from)? },
            OUTSTANDING => Reply::Outstanding { count: from.u32()?, why: decode_text(&mut from)? },
            REPLAY => Reply::Replay { why: decode_text(&mut from)? },
            _ => return Err(from.malformed("an unknown kind of answer")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Destination;
    use crate::audit::Row;

    fn audited() -> Answer {
        let four = Destination::V4("10.0.0.0/8".parse().expect("a prefix"));
        let six = Destination::V6("2001:db8::/32".parse().expect("a prefix"));
        let mut answer = Answer::new(9);
        answer.add(Row::Route { table: 3, prefix: four, id: 7 }, true);
        answer.add(Row::Route { table: 0, prefix: six, id: 8 }, true);
        answer.add(Row::Object { id: 7, digest: u64::MAX, is_true: false }, true);
        answer
    }

    #[test]
    fn answers_are_read_as_they_were_written() {
        for reply in [
            Reply::Welcome { feed: 7, sequence: 9 },
            Reply::Applied { sequence: 3, refused: 1, outstanding: 4, why: "no link 'eth9'".into() },
            Reply::Audited { sequence: 5, answer: audited() },
            Reply::Outstanding { count: 7, why: "full".into() },
            Reply::Replay { why: "new tables".into() },
        ] {
            let bytes = reply.encode();
            assert_eq!(Reply::decode(&bytes), Ok(reply));
            for end in 0..bytes.len() {
                assert!(Reply::decode(&bytes[..end]).is_err(), "{end}");
            }
        }
    }
}
