// What users of OpenAI's SDK for JavaScript do, told as JSON: one line a step.
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const [baseURL, model, user] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "not needed", maxRetries: 0 });
const told = {};
const messages = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "The code word for the pier is gull." },
];

const whole = await client.chat.completions.create({ model, messages, user }).withResponse();
told.whole = whole.data.choices[0].message.content;
told.thread = whole.response.headers.get("x-thread-id");
messages.push(whole.data.choices[0].message, { role: "user", content: "What is the code word for the pier?" });

const stream = client.chat.completions.stream({ model, messages, user, stream_options: { include_usage: true } });
told.pieces = 0;
for await (const chunk of stream) told.pieces += chunk.choices.length;
const final = await stream.finalChatCompletion();
told.streamed = final.choices[0].message.content;
told.usage = (await stream.totalUsage()).total_tokens > 0;

const runner = client.chat.completions.runTools({
  model,
  user,
  messages: [{ role: "user", content: "How is it in Bonn?" }],
  tools: [
    {
      type: "function",
      function: {
        name: "weather",
        description: "Tells the weather.",
        parameters: { type: "object", properties: { city: { type: "string" } } },
        parse: JSON.parse,
        function: ({ city }) => `rain in ${city}`,
      },
    },
  ],
});
told.tool = await runner.finalContent();

const Town = z.object({ name: z.string(), people: z.number() });
const parsed = await client.chat.completions.parse({
  model,
  user,
  messages: [{ role: "user", content: "Which town?" }],
  response_format: zodResponseFormat(Town, "town"),
});
told.parsed = parsed.choices[0].message.parsed;

try {
  await client.chat.completions.create({ model: "nobody", messages, user });
} catch (error) {
  told.error = [error.constructor.name, error.status, error.code];
}
told.models = (await client.models.list()).data.map((one) => one.id);
console.log(JSON.stringify(told));
