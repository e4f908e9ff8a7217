"""Sentences that have nothing to do with each other: what random pairs of texts come to is measured on them."""

from __future__ import annotations

SENTENCES = tuple(
    """
The ferry to the island leaves at twenty past six.
My grandmother keeps her buttons in an old biscuit tin.
Could you check why the build fails on Windows?
We painted the kitchen a pale shade of yellow.
The committee will vote on the budget next Thursday.
He forgot his umbrella on the tram again.
Set the timeout to thirty seconds and retry twice.
Her violin teacher moved to Lisbon last autumn.
The recipe calls for two cups of flour and a pinch of salt.
Nobody knew that the bridge had been closed.
I ran ten kilometres this morning before breakfast.
Please send me the invoice as a PDF.
The cat sleeps on the radiator all winter.
Our flight was delayed because of fog.
What is the capital of Mongolia?
She works as a nurse in the children's ward.
The index of the orders table is missing a column.
They adopted two greyhounds from a shelter.
I have been learning to play chess with my nephew.
The tomatoes in the greenhouse are finally ripe.
Add a test that covers the empty list.
He proposed to her on a beach in Portugal.
The museum has a new exhibition about whales.
Can you translate this paragraph into Polish?
My bicycle has a flat tyre.
The lecture about volcanoes was sold out.
We decided to rent a van instead of a car.
The password has to be changed every ninety days.
An owl lives in the tower of the church.
I am allergic to peanuts and to cats.
The first chapter of the novel takes place in Vienna.
How many legs does a lobster have?
Her brother won a medal in judo.
The printer on the third floor is out of toner.
We watched a documentary about deep sea fish.
The contract runs until the end of June.
Thanks for listening, it means a lot to me.
I would like a window seat, please.
The function returns None when the key is absent.
He bakes sourdough bread on Sundays.
The orchestra rehearses in an old factory.
Turn left at the petrol station and go uphill.
My daughter lost her first tooth yesterday.
The shares fell by four percent after the announcement.
Put the dishes into the cupboard above the sink.
The garden needs rain badly.
Who wrote the music for that film?
The server ran out of memory at midnight.
We celebrated my father's retirement with a barbecue.
A thick layer of dust covered the piano.
Explain the difference between a process and a thread.
The dentist found a small cavity.
They are planning a trip to Iceland in spring.
The light bulb in the hallway flickers.
I finished the puzzle with two thousand pieces.
The new manager comes from Brazil.
Rename the variable so that it says what it counts.
The bakery around the corner closes at noon.
Our neighbours have a very loud rooster.
She is writing her thesis on medieval maps.
The engine makes a strange noise in second gear.
Is there a discount for students?
The lake was frozen solid by January.
I need glasses for reading these days.
The election results will be announced at eight.
He collects stamps from countries that no longer exist.
My kids had a blast at the zoo on Saturday.
We met at a concert five years ago.
The soup was too salty for my taste.
Remember to water the plants while I am away.
A fox crossed the road in front of us.
The warranty does not cover water damage.
My favourite colour has always been green.
The hikers reached the hut just before the storm.
Why is the sky blue during the day?
The accountant asked for all receipts of last year.
They named their boat after a comet.
The cache is invalidated when the file changes.
I volunteer at the library on Wednesdays.
The sofa arrives in three parcels.
He speaks four languages and is learning a fifth.
The vaccine has to be kept cold.
Use a smaller font for the captions.
The train station was built in the nineteenth century.
She quit her job to open a flower shop.
The goalkeeper broke his thumb during training.
How do I remove a wine stain from a carpet?
The satellite sends a picture every hour.
We ordered pizza and played cards all evening.
The landlord wants to raise the rent.
Well, that went better than I feared!
The bees have left their hive.
My uncle repairs clocks in his spare time.
The new law applies from the first of March.
I cannot find the charger of my laptop.
The play ends with a wedding and a funeral.
Sort the rows by date, the newest first.
The mountain pass is open from May to October.
She drinks her coffee without sugar.
The patient should rest for at least a week.
Which team won the final in extra time?
The factory makes screws for aeroplanes.
He grew up on a farm with forty cows.
The meeting was moved to the small conference room.
Our tent survived the night in spite of the wind.
I've been thinking about starting a blog.
A glass of warm milk helps me to fall asleep.
The variable is read before it is assigned.
They sell handmade candles at the market.
Take your time, there is no rush at all.
I dropped my phone and cracked the screen.
The harbour smells of tar and seaweed.
Is it safe to eat raw mushrooms?
The teacher praised her essay about justice.
We need a larger fridge for the party.
The lawyer will answer by the end of the week.
The desert blooms for only a few days.
Encrypt the backup before you upload it.
My knees hurt when I climb stairs.
The choir sings in Latin and in Welsh.
He borrowed a ladder from the fire brigade.
The coin shows an emperor with a beard.
Our subscription was renewed without notice.
The river flooded the fields twice this year.
She dyed her hair purple for the festival.
The elevator stops between two floors.
What does this error message mean?
The chef trained in Kyoto for six years.
I hope your interview goes well tomorrow.
A heron stood in the shallow water.
I would rather work from home on Fridays.
The lighthouse was automated long ago.
Same here, I barely slept last night.
They argue about politics at every dinner.
Yeah, my boss has been really tough lately.
My sister is expecting twins in August.
The theatre was empty apart from us.
Peel the potatoes and cut them into cubes.
The astronaut described the silence outside.
He signed up for a course in pottery.
The battery lasts for about nine hours.
Some parrots live longer than people.
I'm so proud of you, honestly.
We got lost in the old town and did not mind.
The judge dismissed the case.
A spare key lies under the flower pot.
The podcast is about forgotten inventions.
How long does it take to grow an avocado?
The paint has to dry overnight.
The startup was sold for a surprising sum.
She swims across the lake every summer.
The calendar shows holidays of three countries.
His first car was a rusty blue estate.
We should catch up over lunch soon.
Please keep your answers short.
The parcel was left with the neighbours.
A red balloon drifted over the roofs.
The thermostat is set to nineteen degrees.
I still dream about that exam.
The queue at the passport office was endless.
Wow, that looks delicious, did you make it yourself?
The branch was merged without a review.
Sounds fun! Let me know when you are free.
""".strip().splitlines()
)
