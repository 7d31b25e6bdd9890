// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Classifier
//!
//! `Classifier(PATTERN, ...)`
//!
//! Sends each packet to the output of the first pattern that its bytes match.
//!
//! **Ports:** 1 push input; as many push outputs as there are patterns.
//!
//! **Arguments**
//! * `PATTERN` clauses, all of which must hold, or `-`, which every packet matches. A clause is `OFFSET/VALUE` or
//!   `OFFSET/VALUE%MASK`: OFFSET in bytes from the packet's first, VALUE and MASK in hexadecimal digits, two for each byte.
//!   A `?` in VALUE stands for any digit. A clause behind `!` must not hold. Bytes beyond the packet's end match nothing.
//!
//! **Drops:** `not-matched`, packets that match no pattern.
//!
//! **Handlers**
//! * `program` read: the decision program made of the patterns, one test a line.
//! * `pattern0`, `pattern1` ... `pattern31` read/write: one of the patterns.
//!
//! All patterns are compiled to one program in which no test is made twice. A batch whose packets all go the same way
//! stays whole. In lists of 16 patterns or more, those that look at the same bits stand in a table: the cost hardly grows
//! with the number of patterns. Such a list exists once for all workers.
//!
//! ```click
//! InfiniteSource(DATA \<ffffffffffff 020000000001 0806 0001>, LIMIT 3, STOP true)
//!     -> c :: Classifier(12/0806 14/0001, 12/0800, -);
//! c[0] -> Discard; c[1] -> Discard; c[2] -> Discard;
//! ```
//!
//! See also: IPClassifier, IPFilter

use std::borrow::Cow;
use std::sync::Arc;

use element::args::Args;
use element::{Class, Cx, Element, Handler, HandlerError, OwnHandlers, Reason};
use packet::{Batch, Packet};

use super::byte_match::ByteMatch;
use super::pool::{Listed, Pool};
use super::program::{Base, Expr, Program, Test};
use crate::tools::Splitter;

/// The descriptor.
pub const CLASS: Class = Class::new("Classifier", "1/-", || Box::new(Classifier::default()))
    .processing("h/h")
    .handlers(&PATTERN_HANDLERS)
    .pure()
    .reconfigurable()
    .own_handlers::<Classifier>()
    .file(file!());

/// Names of the handlers for single patterns.
const NAMES: [&str; 32] = [
    "pattern0",
    "pattern1",
    "pattern2",
    "pattern3",
    "pattern4",
    "pattern5",
    "pattern6",
    "pattern7",
    "pattern8",
    "pattern9",
    "pattern10",
    "pattern11",
    "pattern12",
    "pattern13",
    "pattern14",
    "pattern15",
    "pattern16",
    "pattern17",
    "pattern18",
    "pattern19",
    "pattern20",
    "pattern21",
    "pattern22",
    "pattern23",
    "pattern24",
    "pattern25",
    "pattern26",
    "pattern27",
    "pattern28",
    "pattern29",
    "pattern30",
    "pattern31",
];

/// `program` and `patternN`.
pub(super) const PATTERN_HANDLERS: [Handler; NAMES.len() + 1] = {
    let mut handlers = [Handler::read("program"); NAMES.len() + 1];
    let mut i = 0;
    while i < NAMES.len() {
        handlers[i + 1] = Handler::both(NAMES[i]).argument(Some(i), "");
        i += 1;
    }
    handlers
};

/// Patterns as they were given, for their handlers.
#[derive(Default)]
pub(super) struct Patterns(pub Vec<String>);

impl Patterns {
    fn number(&self, name: &str) -> Result<usize, HandlerError> {
        let number = name.strip_prefix("pattern").and_then(|n| n.parse().ok());
        number.filter(|n| *n < self.0.len()).ok_or_else(|| HandlerError::unknown(name))
    }

    /// Answers `patternN`.
    pub fn read(&self, name: &str) -> Result<String, HandlerError> {
        Ok(self.0[self.number(name)?].clone())
    }

    /// The patterns with another one for handler `name`.
    pub fn with(&self, name: &str, pattern: &str) -> Result<Vec<String>, HandlerError> {
        let mut patterns = self.0.clone();
        patterns[self.number(name)?] = pattern.trim().to_owned();
        Ok(patterns)
    }

    /// Reports a number of patterns that is not that of the outputs, and outputs that no packet reaches.
    pub fn check(&self, args: &mut Args<'_>, program: &Program) {
        if self.0.len() != args.noutputs {
            let (outputs, patterns) = (args.noutputs, self.0.len());
            return args.error_as(
                format!("needs as many patterns as outputs: {outputs}, not {patterns}"),
                format!("need {outputs} arguments, one per output port"),
            );
        }
        for n in (0..args.noutputs).filter(|n| !program.reaches(*n as u32)) {
            args.warning(format!("output {n} matches no packets"));
        }
    }
}

/// Patterns from which on tables are made.
const LONG: usize = 16;

/// Long lists, which instances of all workers share.
static LISTS: Pool<ByteMatch> = Pool::new();

impl Listed for ByteMatch {
    fn patterns(&self) -> &[(Expr, u32)] {
        self.patterns()
    }
}

/// Which packets go where.
enum Form {
    Short {
        program: Program,
        /// Length of packets whose end the program cannot meet.
        span: usize,
    },
    Long(Arc<ByteMatch>),
}

impl Default for Form {
    fn default() -> Form {
        Form::Short { program: Program::default(), span: usize::MAX }
    }
}

impl Form {
    fn new(patterns: Vec<(Expr, u32)>) -> Form {
        if patterns.len() >= LONG
            && let Some(list) = LISTS.share(patterns.clone(), |patterns| ByteMatch::new(&patterns))
        {
            return Form::Long(list);
        }
        let program = Program::new(&patterns);
        Form::Short { span: program.span().unwrap_or(usize::MAX), program }
    }

    /// The patterns as one program.
    fn program(&self) -> Cow<'_, Program> {
        match self {
            Form::Short { program, .. } => Cow::Borrowed(program),
            Form::Long(list) => Cow::Owned(Program::new(list.patterns())),
        }
    }
}

#[derive(Default)]
struct Classifier {
    patterns: Patterns,
    form: Form,
    splitter: Splitter,
}

/// What is wrong with a pattern, and how Click says it, if it minds.
struct Wrong {
    why: String,
    click: Option<&'static str>,
}

/// Compiles patterns; the errors tell which ones are wrong, in our words and in Click's.
fn compile(patterns: &[String]) -> Result<Form, Vec<[String; 2]>> {
    let (mut parsed, mut errors) = (Vec::new(), Vec::new());
    for (n, text) in patterns.iter().enumerate() {
        match parse(text) {
            Ok(expr) => parsed.push((expr, n as u32)),
            Err(Wrong { why, click }) => {
                errors.push([&*why, click.unwrap_or(&why)].map(|why| format!("pattern {n}: {why}")));
            }
        }
    }
    if errors.is_empty() { Ok(Form::new(parsed)) } else { Err(errors) }
}

/// Reads a pattern.
fn parse(text: &str) -> Result<Expr, Wrong> {
    let mut rest = text.trim();
    if rest == "-" {
        return Ok(Expr::Const(true));
    }
    if rest.is_empty() {
        let why = "expected OFFSET/VALUE or '-', not an empty argument".into();
        return Err(Wrong { why, click: None });
    }
    let mut clauses = Vec::new();
    while !rest.is_empty() {
        let (clause, after) = clause(rest)?;
        clauses.push(clause);
        rest = after.trim_start();
    }
    Ok(Expr::All(clauses))
}

/// Reads `!OFFSET/VALUE%MASK`; returns what follows, too. As in Click, spaces may follow the mark, and none need stand before the next.
fn clause(text: &str) -> Result<(Expr, &str), Wrong> {
    let (negated, text) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest.trim_start()));
    let word = |text: &'_ str| text.split_ascii_whitespace().next().unwrap_or_default().to_owned();
    let shown = word(text);
    let wrong = |why: String, click| Err(Wrong { why: format!("'{shown}'{why}"), click });
    let no_offset = |text| format!(": the offset should be a number of bytes below 65000, not '{text}'");

    let (offset, rest) = leading(text, |c| c.is_ascii_digit());
    let Some(rest) = rest.strip_prefix('/').filter(|_| !offset.is_empty()) else {
        let click = if offset.is_empty() { "expected a digit" } else { "expected '/'" };
        let why = shown.split_once('/').map_or(" should be OFFSET/VALUE".into(), |(text, _)| no_offset(text));
        return wrong(why, Some(click));
    };
    let is_hex = |c: char| c.is_ascii_hexdigit() || c == '?';
    let (value, after) = leading(rest, is_hex);
    let (mask, after, last) = match after.strip_prefix('%') {
        Some(rest) => {
            let (mask, after) = leading(rest, is_hex);
            (Some(mask), after, ("mask", rest))
        }
        None => (None, after, ("value", rest)),
    };
    let lengths = wrong_lengths(value.len(), mask.map(str::len));
    let click = lengths.as_ref().map(|(_, click)| *click);
    let Some(number) = offset.parse().ok().filter(|o| *o < 65000) else {
        return wrong(no_offset(offset), click);
    };
    if after.starts_with(|c: char| !c.is_ascii_whitespace() && c != '!') {
        let (what, text) = (last.0, word(last.1));
        let text = text.split('%').next().unwrap_or_default();
        let why = format!(": the {what} should consist of hexadecimal digits, not '{text}'");
        return wrong(why, click.or(Some("expected a digit")));
    }
    if let Some((why, _)) = lengths {
        return wrong(why, click);
    }
    if value.len() > 1024 {
        return wrong(": the value is longer than 512 bytes".into(), None);
    }
    let all = tests(number, value, mask);
    Ok((if negated { !all } else { all }, after))
}

/// The characters at the beginning that are allowed, and what follows.
fn leading(text: &str, allowed: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !allowed(c)).unwrap_or(text.len()))
}

/// What is wrong with the numbers of digits, and how Click says it.
fn wrong_lengths(value: usize, mask: Option<usize>) -> Option<(String, &'static str)> {
    let two = || format!(": the value should have two hexadecimal digits for each byte, not {value}");
    let differ = || ": value and mask differ in length".to_owned();
    match mask {
        _ if value < 2 => Some((two(), "value has less than 2 hex digits")),
        _ if value % 2 == 1 => Some((two(), "value has odd number of hex digits")),
        Some(mask) if mask < value => Some((differ(), "mask has too few hex digits")),
        Some(mask) if mask > value => Some((differ(), "mask has too many hex digits")),
        _ => None,
    }
}

/// The tests of a clause. They are on aligned words, so that those of different patterns meet.
fn tests(offset: usize, value: &str, mask: Option<&str>) -> Expr {
    let (value, mut bits) = hexadecimal(value);
    if let Some(mask) = mask {
        let (mask, known) = hexadecimal(mask);
        bits.iter_mut().zip(mask.iter().zip(&known)).for_each(|(b, (m, k))| *b &= m & k);
    }
    let first = offset / 4 * 4;
    let mut words = vec![(0u32, 0u32); (offset + value.len() - first).div_ceil(4)];
    for (i, (value, mask)) in value.iter().zip(&bits).enumerate() {
        let at = offset - first + i;
        let shift = 24 - at % 4 * 8;
        words[at / 4].0 |= u32::from(*value) << shift;
        words[at / 4].1 |= u32::from(*mask) << shift;
    }
    let test = |(i, (value, mask)): (usize, &(u32, u32))| {
        Expr::Test(Test::exact(Base::Data, (first + i * 4) as u16, *mask, *value))
    };
    Expr::All(words.iter().enumerate().map(test).collect())
}

/// The bytes that hexadecimal digits mean, and which of their bits were given: none of a question mark's.
fn hexadecimal(digits: &str) -> (Vec<u8>, Vec<u8>) {
    let nibble = |digit: u8| char::from(digit).to_digit(16).map_or((0, 0), |d| (d as u8, 0xf));
    let nibbles: Vec<_> = digits.bytes().map(nibble).collect();
    let (pairs, _) = nibbles.as_chunks::<2>();
    pairs.iter().map(|[(v, m), (w, n)]| (v << 4 | w, m << 4 | n)).unzip()
}

impl Element for Classifier {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.patterns = Patterns(args.rest());
        match compile(&self.patterns.0) {
            Ok(form) => self.form = form,
            Err(errors) => {
                errors.into_iter().for_each(|[why, click]| args.error_as(why, click));
                return;
            }
        }
        self.patterns.check(args, &self.form.program());
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        let Classifier { form, splitter, .. } = self;
        let (program, span) = match form {
            Form::Short { program, span } => (program, *span),
            Form::Long(list) => {
                return splitter
                    .split_or_drop(cx, batch, Reason::NotMatched, |p| list.find(p.data()) as usize);
            }
        };
        if let Some(output) = program.constant() {
            return cx.push_or_drop(output as usize, batch, Reason::NotMatched);
        }
        let long = |p: &Packet| p.len() >= span;
        // Mostly all packets of a batch go the way of the first.
        let path = batch.first().filter(|p| long(p)).and_then(|p| program.path(p.data()));
        if let Some(path) = path
            && path.is_taken_by_all(&batch, span)
        {
            return cx.push_or_drop(path.output as usize, batch, Reason::NotMatched);
        }
        splitter.split_or_drop(cx, batch, Reason::NotMatched, |p| match p.data() {
            data if data.len() >= span => program.run_within(data) as usize,
            data => program.run(&[data, &[], &[]]) as usize,
        });
    }
}

impl OwnHandlers for Classifier {
    fn read(&mut self, _: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        if name == "program" { Ok(self.form.program().text()) } else { self.patterns.read(name) }
    }

    fn write(&mut self, _: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let patterns = self.patterns.with(name, value)?;
        let form = compile(&patterns).map_err(|errors| {
            HandlerError::failed(errors.into_iter().map(|[why, _]| why).collect::<Vec<_>>().join("; "))
        })?;
        self.form = form;
        self.patterns = Patterns(patterns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    fn check(patterns: &str, packets: &[&[u8]], want: &[&[&[u8]]], dropped: u64) {
        for burst in [1, 32] {
            let rig = Rig::new(&format!("Classifier({patterns})")).outputs(want.len());
            let run = rig.burst(burst).inputs(packets).run();
            for (port, want) in want.iter().enumerate() {
                assert_eq!(run.bytes(&format!("o{port}")), *want, "{patterns}, output {port}");
            }
            assert_eq!(run.drops("e").iter().map(|d| d.1).sum::<u64>(), dropped, "{patterns}");
        }
    }

    #[test]
    fn the_first_pattern_counts() {
        check(
            "0/61 1/62, 0/61, -",
            &[b"abc", b"b", b"axx", b"a", b""],
            &[&[b"abc"], &[b"axx", b"a"], &[b"b", b""]],
            0,
        );
        check("0/61, 0/62", &[b"a", b"c", b"b", b""], &[&[b"a"], &[b"b"]], 2);
    }

    #[test]
    fn masks_wildcards_and_negation() {
        check("0/40%f0, 0/?1", &[b"Ax", b"q", b"z"], &[&[b"Ax"], &[b"q"]], 1);
        check("0/6??3, -", &[b"a4", b"ac", b"b3"], &[&[b"ac", b"b3"], &[b"a4"]], 0);
        // A short packet does not match, so it does match the opposite.
        check("!0/6162, -", &[b"ab", b"a", b"xy"], &[&[b"a", b"xy"], &[b"ab"]], 0);
        check("3/6465 0/61, -", &[b"abcde", b"abcd", b"xbcde"], &[&[b"abcde"], &[b"abcd", b"xbcde"]], 0);
    }

    #[test]
    fn marks_of_negation_stand_where_click_takes_them() {
        check("! 0/61, -", &[b"a", b"b"], &[&[b"b"], &[b"a"]], 0);
        check("0/61!1/62, -", &[b"ab", b"ac"], &[&[b"ac"], &[b"ab"]], 0);
    }

    #[test]
    fn click_finds_the_same_wrong() {
        for (pattern, want) in [
            ("x/08", Some("expected a digit")),
            ("/08", Some("expected a digit")),
            ("12", Some("expected '/'")),
            ("1x/08", Some("expected '/'")),
            ("12/", Some("value has less than 2 hex digits")),
            ("12/8x", Some("value has less than 2 hex digits")),
            ("12/080 x", Some("value has odd number of hex digits")),
            ("12/0800%ff", Some("mask has too few hex digits")),
            ("12/08%ff?", Some("mask has too many hex digits")),
            ("12/08 !", Some("expected a digit")),
            ("12/08x0", Some("expected a digit")),
            ("12/08%ff%ff", Some("expected a digit")),
            ("65000/08", None),
            ("", None),
        ] {
            assert_eq!(
                super::parse(pattern).map(|_| ()).map_err(|wrong| wrong.click),
                Err(want),
                "{pattern}"
            );
        }
    }

    #[test]
    fn patterns_can_be_changed() {
        let mut run = Rig::new("Classifier(0/61, -)").outputs(2).inputs(&[b"a"]).run();
        assert_eq!((run.read("e.pattern0").as_str(), run.bytes("o0").len()), ("0/61", 1));
        run.write("e.pattern0", "0/62").unwrap();
        assert_eq!(run.read("e.pattern0"), "0/62");
        assert!(run.read("e.program").starts_with(" 0   0/62000000%ff000000  yes->[0]  no->[1]"));
        assert!(run.write("e.pattern0", "x").is_err() && run.write("e.pattern2", "-").is_err());
    }

    #[test]
    fn long_lists_go_where_short_ones_do() {
        // Types of Ethernet by the last digits, one clause that must not hold, one of other bits, and all others.
        let types: Vec<String> = (1..40).map(|n| format!("12/08{n:02}")).collect();
        let list = format!("12/0805 !0/ff, 6/02%fe, {}, -", types.join(", "));
        let frame = |first: u8, other: u8, kind: u8| {
            [&[first, 0, 0, 0, 0, 0, other, 0, 0, 0, 0, 0, 8, kind][..], &[0; 46]].concat()
        };
        let packets =
            [frame(0, 0, 5), frame(255, 0, 5), frame(0, 3, 9), frame(0, 0, 0x39), frame(0, 0, 0x40)];
        let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).chain([&[8; 5][..]]).collect();
        for burst in [1, 32] {
            let rig = Rig::new(&format!("Classifier({list})")).outputs(42);
            let mut run = rig.burst(burst).inputs(&packets).run();
            let count = |n: usize| run.bytes(&format!("o{n}")).len();
            // Output 2 is of the first type, so 6 is of type 05.
            let counts = [count(0), count(1), count(6), count(40), count(41)];
            assert_eq!(counts, [1, 1, 1, 1, 2]);
            run.write("e.pattern0", "12/0840").unwrap();
            assert!(run.read("e.program").contains("08400000"));
        }
    }

    #[test]
    fn errors_name_the_pattern() {
        let check = |patterns: &str, want: &str| {
            assert_eq!(Rig::new(&format!("Classifier({patterns})")).errors(), [format!("e: {want}")]);
        };
        check("12/08x0", "pattern 0: '12/08x0': the value should consist of hexadecimal digits, not '08x0'");
        check(
            "12/080",
            "pattern 0: '12/080': the value should have two hexadecimal digits for each byte, not 3",
        );
        check("12", "pattern 0: '12' should be OFFSET/VALUE");
        check("x/08", "pattern 0: 'x/08': the offset should be a number of bytes below 65000, not 'x'");
        check("0/0800%ff", "pattern 0: '0/0800%ff': value and mask differ in length");
        check(
            "!12/08 0/0800x",
            "pattern 0: '0/0800x': the value should consist of hexadecimal digits, not '0800x'",
        );
        check("0/08%fx", "pattern 0: '0/08%fx': the mask should consist of hexadecimal digits, not 'fx'");
        check(
            "65000/08",
            "pattern 0: '65000/08': the offset should be a number of bytes below 65000, not '65000'",
        );
        check("-, -", "needs as many patterns as outputs: 1, not 2");
    }
}
