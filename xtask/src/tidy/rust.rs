//! Rust sources taken apart: what is said to the compiler, to the reader, and to others in literals.
//!
//! A rule about code must not stumble over a comment that explains it, nor over a message that
//! names what it forbids. A small lexer is enough for that, and no grammar is needed.

use std::ops::RangeInclusive;

/// A Rust source. The lines of its parts are those of the file.
pub(crate) struct Rust {
    /// Comments, string and character literals are blank.
    pub(crate) code: String,
    /// All but comments is blank.
    pub(crate) comments: String,
    pub(crate) strings: Vec<Literal>,
}

/// A string literal.
pub(crate) struct Literal {
    pub(crate) line: usize,
    /// As written, without the quotes.
    pub(crate) text: String,
}

/// A word of a source: a keyword, an identifier or a number.
pub(crate) struct Word<'a> {
    pub(crate) line: usize,
    pub(crate) text: &'a str,
    /// What stands behind it on its line.
    pub(crate) after: &'a str,
}

enum Token {
    Code,
    Comment,
    /// How many bytes of quotes and hashes open it and close it.
    Text {
        open: usize,
        close: usize,
    },
}

impl Rust {
    pub(crate) fn read(source: &str) -> Self {
        let mut parts = Self { code: String::new(), comments: String::new(), strings: Vec::new() };
        let (mut rest, mut line) = (source, 1);
        while !rest.is_empty() {
            let (token, length) = next_token(rest);
            let (text, behind) = rest.split_at(length);
            let (code, comment) = match token {
                Token::Code => (text.to_owned(), blank(text)),
                Token::Comment => (blank(text), text.to_owned()),
                Token::Text { open, close } => {
                    // An unclosed literal ends with the file, without its closing quotes.
                    let text = text.get(open..length.saturating_sub(close)).unwrap_or_default().to_owned();
                    parts.strings.push(Literal { line, text });
                    (blank(&rest[..length]), blank(&rest[..length]))
                }
            };
            parts.code.push_str(&code);
            parts.comments.push_str(&comment);
            line += text.matches('\n').count();
            rest = behind;
        }
        parts
    }

    /// The code without the items that only tests compile.
    pub(crate) fn production(&self) -> String {
        let tests = self.test_lines();
        let is_test = |index: usize| tests.iter().any(|lines| lines.contains(&(index + 1)));
        let lines = self.code.lines().enumerate();
        let lines: Vec<&str> = lines.map(|(index, line)| if is_test(index) { "" } else { line }).collect();
        lines.join("\n")
    }

    /// The lines, from 1, of the items that only tests compile.
    pub(crate) fn test_lines(&self) -> Vec<RangeInclusive<usize>> {
        let line = |at: usize| self.code[..at].matches('\n').count() + 1;
        let items = self.code.match_indices("#[cfg(").filter(|(at, _)| {
            let attribute = &self.code[*at..];
            attribute.starts_with("#[cfg(test)]") || attribute.starts_with("#[cfg(all(test")
        });
        items.map(|(at, _)| line(at)..=line(at + item_length(&self.code[at..]))).collect()
    }
}

/// The words of a text, line by line.
pub(crate) fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    text.lines().enumerate().flat_map(|(index, line)| {
        let mut rest = line;
        std::iter::from_fn(move || {
            rest = rest.trim_start_matches(|c| !is_word(c));
            let length = word_length(rest);
            let (text, after) = rest.split_at(length);
            rest = after;
            (length > 0).then_some(Word { line: index + 1, text, after })
        })
    })
}

/// The kind and the length of what `rest`, which is not empty, begins with.
fn next_token(rest: &str) -> (Token, usize) {
    let word = word_length(rest);
    if word > 0 {
        let hashes = rest[word..].len() - rest[word..].trim_start_matches('#').len();
        let raw = matches!(&rest[..word], "r" | "br" | "cr") && rest[word + hashes..].starts_with('"');
        if !raw {
            return (Token::Code, word);
        }
        let open = word + hashes + 1;
        let closing = format!("\"{}", "#".repeat(hashes));
        return (Token::Text { open, close: closing.len() }, end_of(rest, open, &closing));
    }
    if rest.starts_with("//") {
        return (Token::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Token::Comment, block_comment_length(rest));
    }
    if rest.starts_with('"') {
        return (Token::Text { open: 1, close: 1 }, quoted_length(rest, '"'));
    }
    let mut chars = rest.chars();
    let first = chars.next().map_or(1, char::len_utf8);
    // A character literal; a lifetime has no second quote two characters on.
    if rest.starts_with('\'') && (chars.next() == Some('\\') || chars.next() == Some('\'')) {
        return (Token::Text { open: 1, close: 1 }, quoted_length(rest, '\''));
    }
    (Token::Code, first)
}

/// The length of a literal between two of `quote`.
fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (index, character) in rest.char_indices().skip(1) {
        if !escaped && character == quote {
            return index + 1;
        }
        escaped = !escaped && character == '\\';
    }
    rest.len()
}

/// Block comments nest.
fn block_comment_length(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        let here = &rest[at..];
        if here.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn end_of(rest: &str, from: usize, closing: &str) -> usize {
    rest[from..].find(closing).map_or(rest.len(), |found| from + found + closing.len())
}

/// The length of the item that `code` begins with: to the brace that closes it or its semicolon.
fn item_length(code: &str) -> usize {
    let mut depth = 0;
    for (index, character) in code.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth <= 1 => return index + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return index + 1,
            _ => {}
        }
    }
    code.len()
}

fn word_length(rest: &str) -> usize {
    rest.len() - rest.trim_start_matches(is_word).len()
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn blank(text: &str) -> String {
    text.chars().map(|character| if character == '\n' { '\n' } else { ' ' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_words(source: &str) -> Vec<String> {
        words(&Rust::read(source).code).map(|word| word.text.to_owned()).collect()
    }

    fn strings(source: &str) -> Vec<(usize, String)> {
        Rust::read(source).strings.into_iter().map(|literal| (literal.line, literal.text)).collect()
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        let source = "let a = \"b // c\"; // d \"e\n/* f /* g */ h */ let i = '\"'; let j: &'k str = \"l\";";
        assert_eq!(code_words(source), ["let", "a", "let", "i", "let", "j", "k", "str"]);
    }

    #[test]
    fn literals_keep_their_text_and_line_whatever_their_quotes() {
        let source = "f(\"a \\\" b\",\nr#\"c \" d\"#, b\"e\",\nbr\"f\\\", \"\\\\\", r#type, 'g', '\\'', \"h";
        let expected = [
            (1, "a \\\" b"),
            (2, "c \" d"),
            (2, "e"),
            (3, "f\\"),
            (3, "\\\\"),
            (3, "g"),
            (3, "\\'"),
            (3, ""),
        ];
        assert_eq!(strings(source), expected.map(|(line, text)| (line, text.to_owned())));
        assert_eq!(code_words(source), ["f", "b", "r", "type"]);
    }

    #[test]
    fn comments_keep_their_line() {
        let comments = Rust::read("a\n// b\nc /* d\ne */ f").comments;
        let found: Vec<_> = words(&comments).map(|word| (word.line, word.text)).collect();
        assert_eq!(found, [(2, "b"), (3, "d"), (4, "e")]);
    }

    #[test]
    fn a_word_knows_what_stands_behind_it() {
        let afters: Vec<_> = words("now() now").map(|word| word.after).collect();
        assert_eq!(afters, ["() now", ""]);
    }

    #[test]
    fn code_behind_a_test_module_is_production_code_again() {
        let source = "fn a() {}\n#[cfg(test)]\nmod tests {\nfn b() { if c {} }\nfn c() {}\n}\nfn d() {}\n#[cfg(test)]\nmod e;\nfn f() {}\n\
                      #[cfg(all(test, unix))]\nfn g() {}\n#[cfg(unix)]\nfn h() {}";
        let production = Rust::read(source).production();
        let left = words(&production)
            .filter(|word| matches!(word.text, "a" | "b" | "c" | "d" | "e" | "f" | "g" | "h"));
        let left: Vec<_> = left.map(|word| (word.line, word.text)).collect();
        assert_eq!(left, [(1, "a"), (7, "d"), (10, "f"), (14, "h")]);
    }

    #[test]
    fn torn_sources_are_read_to_their_end() {
        for source in ["\"a", "'\\", "'", "/* a", "r#\"a", "#[cfg(test)] mod a {", "é'é'"] {
            let rust = Rust::read(source);
            assert_eq!(rust.code.chars().count(), source.chars().count(), "{source}");
            rust.production();
        }
    }
}
