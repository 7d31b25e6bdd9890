// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of words.

use lang::Span;

/// A word and where it stands.
#[derive(Clone, Debug)]
pub struct Word {
    /// Its text, without quotes.
    pub text: String,
    /// Whether it stood in quotes.
    pub is_quoted: bool,
    /// Whether its quote does not end.
    pub is_open: bool,
    /// Its place.
    pub span: Span,
    /// The words that it was put together from, where lists go on behind a comma and a space.
    pieces: Vec<(String, Span)>,
}

impl Word {
    fn new(text: &str, is_quoted: bool, span: Span) -> Word {
        Word { text: text.to_owned(), is_quoted, is_open: false, span, pieces: vec![(text.to_owned(), span)] }
    }

    /// The same word with another text.
    pub fn with_text(&self, text: &str) -> Word {
        Word::new(text, self.is_quoted, self.span)
    }

    /// Puts the next word of a list behind it.
    fn join(&mut self, text: &str, span: Span) {
        self.text.push_str(text);
        self.span = self.span.to(span);
        self.pieces.push((text.to_owned(), span));
    }

    /// The parts between commas.
    pub fn parts(&self) -> impl Iterator<Item = Word> + '_ {
        self.pieces.iter().flat_map(move |(text, span)| {
            let mut at = span.start + u32::from(self.is_quoted);
            text.split(',').filter_map(move |part| {
                let start = at;
                at += part.len() as u32 + 1;
                let span = Span { start, end: start + part.len() as u32, ..*span };
                (!part.is_empty()).then(|| Word::new(part, self.is_quoted, span))
            })
        })
    }
}

/// A line: at least one word.
#[derive(Debug)]
pub struct Line {
    /// Its words.
    pub words: Vec<Word>,
    /// From the first word to the last.
    pub span: Span,
    /// Counted from 1.
    pub number: u32,
}

impl Line {
    /// Its words, each after one space.
    pub fn text(&self) -> String {
        let words = self.words.iter().map(|word| match word.is_quoted {
            true => format!("\"{}\"", word.text),
            false => word.text.clone(),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// The words behind the first one of a line, one after the other.
#[derive(Debug)]
pub struct Rest<'a> {
    words: std::slice::Iter<'a, Word>,
    last: Span,
}

impl<'a> Rest<'a> {
    /// Those of a line.
    pub fn of(line: &'a Line) -> Rest<'a> {
        Rest { words: line.words[1..].iter(), last: line.words[0].span }
    }

    /// The next word, which stays the next one.
    pub fn peek(&self) -> Option<&'a Word> {
        self.words.as_slice().first()
    }

    /// Where the word stands that was taken last, or the first one of the line.
    pub fn place(&self) -> Span {
        self.last
    }
}

impl<'a> Iterator for Rest<'a> {
    type Item = &'a Word;

    fn next(&mut self) -> Option<&'a Word> {
        let word = self.words.next()?;
        self.last = word.span;
        Some(word)
    }
}

/// All lines that are not empty.
pub fn lines(text: &str, file: u32) -> Vec<Line> {
    let mut all = Vec::new();
    let mut words: Vec<Word> = Vec::new();
    let (mut start, mut first) = (0, 1);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let goes_on = add(&mut words, line, start, file);
        if words.is_empty() {
            first = number as u32 + 2;
        } else if !goes_on {
            let span = words[0].span.to(words[words.len() - 1].span);
            all.push(Line { words: std::mem::take(&mut words), span, number: first });
            first = number as u32 + 2;
        }
        start += line.len();
    }
    if let (Some(one), Some(last)) = (words.first(), words.last()) {
        let span = one.span.to(last.span);
        all.push(Line { words, span, number: first });
    }
    all
}

/// Adds the words of a line. Returns whether the next line belongs to it.
fn add(words: &mut Vec<Word>, line: &str, start: usize, file: u32) -> bool {
    let mut rest = line.char_indices().peekable();
    let mut goes_on = false;
    while let Some(&(at, c)) = rest.peek() {
        match c {
            '#' => break,
            c if c.is_whitespace() => {
                rest.next();
            }
            '\\' if line[at + 1..].trim().is_empty() => {
                goes_on = true;
                break;
            }
            '"' => {
                rest.next();
                let mut text = String::new();
                let (mut end, mut is_open) = (at + 1, true);
                for (at, c) in rest.by_ref() {
                    if c == '"' || c == '\n' {
                        end = at + usize::from(c == '"');
                        is_open = c == '\n';
                        break;
                    }
                    text.push(c);
                    end = at + c.len_utf8();
                }
                let word = Word::new(&text, true, span(file, start + at, start + end));
                words.push(Word { is_open, ..word });
                goes_on = false;
            }
            _ => {
                let end = line[at..]
                    .find(|c: char| c.is_whitespace() || c == '#' || c == '"')
                    .map_or(line.len(), |length| at + length);
                while rest.peek().is_some_and(|(at, _)| *at < end) {
                    rest.next();
                }
                let text = &line[at..end];
                let span = span(file, start + at, start + end);
                goes_on = text.ends_with(',');
                // `a, b` is `a,b`.
                match words.last_mut() {
                    Some(before)
                        if !before.is_quoted && (before.text.ends_with(',') || text.starts_with(',')) =>
                    {
                        before.join(text, span);
                    }
                    _ => words.push(Word::new(text, false, span)),
                }
            }
        }
    }
    goes_on
}

fn span(file: u32, start: usize, end: usize) -> Span {
    Span { file, start: start as u32, end: end as u32 }
}
