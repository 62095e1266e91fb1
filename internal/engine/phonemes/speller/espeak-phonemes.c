// espeak-phonemes says how words are pronounced, by eSpeak NG's library: what `espeak-ng -q --ipa --tie=^ -v VOICE` writes,
// without the sound that the program makes for each line and throws away.
//
//   espeak-phonemes --voices    a line a language of the installed voices: its priority and its name
//   espeak-phonemes VOICE       reads lines of UTF-8 and answers each with one line, its phonemes, as soon as it has read it
//
// A line that begins with a tab is the name of the voice of those that follow; its answer is empty. All others are nothing but
// text: there is no notation for phonemes, and control characters are spaces. A line of 64 KiB or more ends the process, as does
// a voice that is not there, and the end of the input. Whatever goes wrong is said on standard error, and the status is 1.
//
// The library is GPL-3-or-later, and so is this program where it is handed on linked to it. Nothing else of the project is
// linked to it: it is spoken to by way of a pipe.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <espeak-ng/speak_lib.h>

static const int manner = espeakPHONEMES_IPA | espeakPHONEMES_TIE | '^' << 8;

static int fail(const char *what)
{
	fprintf(stderr, "espeak-phonemes: %s\n", what);
	return 1;
}

// voices lists the languages: a voice has several, each a byte of priority and a name, up to a priority of 0.
static void voices(void)
{
	for (const espeak_VOICE **v = espeak_ListVoices(NULL); *v; v++)
		for (const char *l = (*v)->languages; *l; l += strlen(l) + 1)
			printf("%d %s\n", l[0], l + 1);
}

// The answer to a line: its phonemes, a line a clause. The library itself writes it when it makes sound.
static FILE *trace;
static char *traced;
static size_t length;

// enough ends the making of sound at its first samples: by then the phonemes of a line's only clause are traced.
static int only;
static int enough(short *samples, int count, espeak_EVENT *events)
{
	(void)samples, (void)count, (void)events;
	return only;
}

// answer writes the phonemes of a line. The library gives them clause by clause, and right but for clauses whose words all lack
// the main stress, such as "what for" and "of the": which of them has it then is found on the way to the sound.
static void answer(const char *line)
{
	int clauses = 0, unstressed = 0;

	rewind(trace);
	for (const void *rest = line; rest; clauses++) {
		const char *said = espeak_TextToPhonemes(&rest, espeakCHARS_UTF8, manner);
		if (said && *said) {
			unstressed |= !strstr(said, "\u02c8");
			fprintf(trace, "%s\n", said);
		}
	}
	if (unstressed) {
		only = clauses == 1;
		rewind(trace);
		espeak_Synth(line, strlen(line) + 1, 0, POS_CHARACTER, 0, espeakCHARS_UTF8 | espeakENDPAUSE, NULL, NULL);
	}
	fflush(trace);
	for (size_t i = 0; i < length; i++)
		putchar_unlocked(traced[i] == '\n' ? ' ' : traced[i]);
	putchar_unlocked('\n');
}

// speak takes a voice. Some are known by their language alone: fr-fr.
static int speak(const char *voice)
{
	espeak_VOICE language = { .languages = voice };
	return espeak_SetVoiceByName(voice) == EE_OK || espeak_SetVoiceByProperties(&language) == EE_OK;
}

int main(int argc, char **argv)
{
	static char in[1 << 16];
	size_t have = 0;

	if (argc != 2)
		return fail("give it the name of a voice, or --voices");
	if (espeak_Initialize(AUDIO_OUTPUT_SYNCHRONOUS, 10, NULL, espeakINITIALIZE_DONT_EXIT) < 0)
		return fail("eSpeak NG has no data (apt-get install espeak-ng-data)");
	if (strcmp(argv[1], "--voices") == 0) {
		voices();
		return 0;
	}
	if (!speak(argv[1]))
		return fail("eSpeak NG has no voice of that name");
	if (!(trace = open_memstream(&traced, &length)))
		return fail("it has no memory");
	espeak_SetPhonemeTrace(manner, trace);
	espeak_SetSynthCallback(enough);
	for (;;) {
		ssize_t n = read(STDIN_FILENO, in + have, sizeof in - have);
		if (n == 0)
			return 0;
		if (n < 0)
			return fail("it cannot read");
		have += n;
		char *line = in, *end;
		while ((end = memchr(line, '\n', in + have - line))) {
			int turn = *line == '\t';
			for (char *c = line; c < end; c++)
				if ((unsigned char)*c < ' ' || *c == 0x7f)
					*c = ' ';
			*end = 0;
			if (!turn)
				answer(line);
			else if (speak(line + 1))
				putchar_unlocked('\n');
			else
				return fail("eSpeak NG has no voice of that name");
			line = end + 1;
		}
		if (fflush(stdout) != 0)
			return fail("it cannot write");
		have -= line - in;
		if (have == sizeof in)
			return fail("a line has 64 KiB or more");
		memmove(in, line, have);
	}
}
